// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A run: what is planned is carried out, here or as jobs of Slurm.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use cabane_label::System;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::catalogue::{self, PublishedCatalogue};
use crate::directory::RunDirectory;
use crate::here::{Event, Processes};
use crate::pipeline::Pipeline;
use crate::plan::{PlanRequest, PlannedCell, plan};
use crate::slurm::{self, JobOptions};
use crate::stage::Stage;
use crate::step::StepOptions;

/// Where builds and checks run. Images are always pushed and promoted from here, where the keys are.
#[derive(Clone, Debug)]
pub enum Place {
    /// As processes on this machine.
    Here,
    /// As jobs on the nodes of each cell.
    Slurm(JobOptions),
}

/// How a plan is carried out.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where.
    pub place: Place,
    /// How many cells are worked on at the same time.
    pub at_once: usize,
    /// How each stage is carried out.
    pub step: StepOptions,
}

/// What a run has done.
#[derive(Debug)]
pub struct Ran<'p> {
    /// What was planned; what came of it is in the directory of the run.
    pub planned: Vec<PlannedCell<'p>>,
    /// The website of the images; `None` if the pipeline has none, or no registry is used.
    pub catalogue: Result<Option<PublishedCatalogue>>,
}

/// What is built and tested on this machine says nothing about other systems.
fn refuse_other_systems(context: &Context, planned: &[PlannedCell<'_>]) -> Result<()> {
    let is_here = |stage: &Stage| matches!(stage, Stage::Build | Stage::Check);
    let built = planned.iter().filter(|one| one.stages.iter().any(is_here));
    let systems: BTreeSet<&System> = built.map(|one| &one.cell.name.system).collect();
    let here = context.system();
    let other = match &here {
        Some(here) => systems.iter().find(|system| **system != here),
        None => systems.iter().nth(1),
    };
    let Some(other) = other else { return Ok(()) };
    let here = here.map_or_else(
        || "the name of this system is unknown".to_owned(),
        |here| format!("this is the system {here}"),
    );
    let message = format!("cells of {other} cannot be built and checked here: {here}");
    Err(Report::new(Kind::Usage, message).hinted(
        "`--only @SYSTEM` selects the cells of one system, and `--on slurm` uses its nodes"
            .to_owned(),
    ))
}

/// Plans what is left, and carries it out. Each step is reported to `report`, from several threads.
/// At the end it writes the catalog: results and channels may have changed even if nothing was left.
///
/// A run that is interrupted or killed is continued by the next one. Jobs of Slurm go on meanwhile, and
/// the next run waits for them.
///
/// # Errors
///
/// Another run works in the directory; and those of planning, starting processes, and submitting jobs. A stage
/// that fails is a result.
pub fn run<'p>(
    context: &Context,
    pipeline: &'p Pipeline,
    directory: &RunDirectory,
    (request, options): (&PlanRequest, &RunOptions),
    interrupt: &AtomicBool,
    report: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Ran<'p>> {
    let _lock = directory.lock()?;
    let planned = plan(context, pipeline, directory, request)?;
    if matches!(options.place, Place::Here) {
        refuse_other_systems(context, &planned)?;
    }
    let step = &options.step;
    let processes = Processes { context, pipeline, run: directory, options: step, interrupt };
    match &options.place {
        Place::Here => processes.all(&planned, options.at_once, report)?,
        Place::Slurm(slurm) => {
            slurm::all(&processes, slurm, &planned, options.at_once, report)?;
        }
    }
    let catalogue = catalogue::publish(context, pipeline, &step.publishing);
    Ok(Ran { planned, catalogue })
}
