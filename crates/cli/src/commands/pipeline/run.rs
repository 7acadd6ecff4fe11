// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline run` and `cancel`.

use cabane_evidence::Outcome;
use cabane_pipeline::{CellSummary, Event, JobOptions, Place, Ran, RunOptions};
use cabane_report::Result;
use clap::{Args, ValueEnum};

use crate::commands::pipeline::catalogue::say_what_is_shown;
use crate::commands::pipeline::status::print_summaries;
use crate::commands::pipeline::{PipelineArgs, PlanningArgs, StageArgs, code_of_all};
use crate::exit_codes::{self, ExitCode};
use crate::interrupt::stop_when_interrupted;
use crate::setup::Setup;
use crate::table::counted;

/// Build, check, publish, and promote what is left
#[derive(Debug, Args)]
#[command(after_help = "\
Stages:
  build    build the image, or pull it if the registry already has it
  check    test the image, as `cabane check` does
  publish  push the image with its signed results, even if a check failed
  promote  if the image passed, give it its final label and release it in the channel

If the pipeline has a section `catalogue`, the run writes the catalog at the end.

Nothing is done twice: the directory of the run keeps the result of each stage, and the
tag of a published image identifies its inputs. To continue an interrupted run, repeat
the command. Slurm jobs keep running meanwhile.

Examples:
  cabane pipeline run --offline
  cabane pipeline run --only app/1.0 --key tests.key
  cabane pipeline run --on slurm --since main --key tests.key --channel-key release.key

The exit code is 16 if a cell failed, 17 if none failed and one is an ERROR, and 18 if
a cell has nothing to test.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    planning: PlanningArgs,
    /// Where cells are built and checked
    #[arg(long, value_name = "PLACE", default_value = "here")]
    on: On,
    /// The number of cells at the same time; with --on slurm, the number that is published at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// With --on slurm: pass this option to `sbatch`, such as --sbatch=--account=x. Repeatable
    #[arg(long = "sbatch", value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_options: Vec<String>,
    /// With --on slurm: the most tasks of each array at the same time
    #[arg(long, value_name = "N")]
    throttle: Option<usize>,
    #[command(flatten)]
    stages: StageArgs,
}

/// Cancel the jobs of an interrupted run
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
}

/// Where cells are built and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// On this machine
    Here,
    /// In jobs of Slurm
    Slurm,
}

pub(crate) fn run(setup: &Setup, args: &RunArgs) -> Result<ExitCode> {
    let (pipeline, directory) = args.pipeline.open_with_warnings(setup)?;
    let step = args.stages.options();
    let request = args.planning.request(setup, step.publishing.clone());
    let place = match args.on {
        On::Here => Place::Here,
        On::Slurm => {
            Place::Slurm(JobOptions::find(setup, args.sbatch_options.clone(), args.throttle)?)
        }
    };
    let options = RunOptions { place, at_once: args.jobs, step };
    let interrupt = stop_when_interrupted()?;
    let Ran { planned, catalogue } = cabane_pipeline::run(
        setup,
        &pipeline,
        &directory,
        (&request, &options),
        &interrupt,
        &mut |event| show(setup, event),
    )?;
    let summaries: Vec<CellSummary> =
        planned.iter().map(|one| CellSummary::of(&directory, one.cell)).collect();
    let idle = planned.iter().filter(|one| one.stages.is_empty()).count();
    if idle > 0 {
        setup.note(format_args!("nothing was left to do for {}", counted(idle, "cell")));
    }
    print_summaries(setup, &summaries);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (one, summary) in planned.iter().zip(&summaries) {
        outcomes.extend(summary.outcome);
        // What the registry says of an image that was never here counts, too.
        outcomes.extend(one.before);
        let is_done = one.stages.last().is_none_or(|stage| summary.stage(*stage).is_some());
        let has_passed = summary.outcome.is_none_or(|outcome| outcome == Outcome::Passed);
        if has_passed && !is_done {
            outcomes.push(Outcome::Error);
        }
    }
    match catalogue {
        Ok(Some(written)) => say_what_is_shown(setup, &written),
        Ok(None) => {}
        Err(error) => {
            setup.printer.failure(&error);
            setup.note("the catalog has not changed");
            outcomes.push(Outcome::Error);
        }
    }
    if !pipeline.mistakes.is_empty() && outcomes.iter().all(|one| *one == Outcome::Passed) {
        return Ok(exit_codes::BAD_INPUT);
    }
    Ok(code_of_all(&outcomes))
}

fn show(setup: &Setup, event: Event<'_>) {
    match event {
        Event::Started(cell, stage) => setup.detail(format_args!("{}: {stage}…", cell.name)),
        Event::Submitted(text) => setup.note(text),
        Event::Finished(cell, result) => {
            let message = result.message.as_deref().unwrap_or_default();
            let first = message.lines().next().unwrap_or_default();
            let more = if first.is_empty() { String::new() } else { format!(": {first}") };
            setup.note(format_args!(
                "{}: {} {} ({:.1} s){more}",
                cell.name,
                result.stage,
                result.outcome,
                result.seconds()
            ));
        }
    }
}

pub(crate) fn cancel(setup: &Setup, args: &CancelArgs) -> Result<()> {
    let (_, directory) = args.pipeline.open()?;
    let slurm = JobOptions::find(setup, Vec::new(), None)?;
    let count = cabane_pipeline::cancel(setup, &slurm, &directory)?;
    setup.note(format_args!("cancelled {}", counted(count, "job")));
    Ok(())
}
