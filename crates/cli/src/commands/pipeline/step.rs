// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline step`: one stage of one cell, for those who schedule themselves.

use std::path::{Path, PathBuf};

use cabane_evidence::Outcome;
use cabane_pipeline::{CellName, Stage, cell_of_task};
use cabane_report::{IoContext, Kind, Report, Result};
use clap::Args;

use crate::commands::pipeline::{PipelineArgs, StageArgs};
use crate::exit_codes::ExitCode;
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::setup::Setup;

/// Carry out one stage of one cell
#[derive(Debug, Args)]
#[command(after_help = "\
Call this command in jobs of your own CI. Each stage needs the results of the stages
before it, which are in the directory of the run.

Examples:
  cabane pipeline step build app/1.0@daint%gh200 --run $SCRATCH/run
  cabane pipeline step check app/1.0@daint%gh200 --run $SCRATCH/run

The exit code is 16 for FAILED, 17 for ERROR, and 18 for NOT TESTED.")]
pub(crate) struct StepArgs {
    /// The stage: build, check, publish, or promote
    stage: Stage,
    /// The cell: name/version@system%uarch
    #[arg(required_unless_present = "array", value_parser = cell_name)]
    cell: Option<CellName>,
    /// In a task of an array of Slurm: a file with the cell of each task
    #[arg(long, value_name = "FILE", conflicts_with = "cell")]
    array: Option<PathBuf>,
    /// Print into the log of the stage
    #[arg(long)]
    log: bool,
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    stages: StageArgs,
}

fn cell_name(text: &str) -> Result<CellName, String> {
    text.parse().map_err(|error: cabane_report::Report| error.to_string())
}

pub(crate) fn step(setup: &Setup, args: &StepArgs) -> Result<ExitCode> {
    let (pipeline, run) = args.pipeline.open()?;
    let (name, inputs) = match (&args.cell, &args.array) {
        (Some(cell), _) => (cell.clone(), None),
        (None, list) => {
            let list = list.as_deref().unwrap_or(Path::new(""));
            let (name, inputs) = cell_of_task(setup, list)?;
            (name, Some(inputs))
        }
    };
    let cell = pipeline.cell(&name)?;
    if inputs.is_some_and(|inputs| inputs != cell.inputs) {
        let message = format!("the recipe of {name} has changed since the job was submitted");
        return Err(Report::new(Kind::Failure, message)
            .hinted("`cabane pipeline run` submits it again".to_owned()));
    }
    if args.log {
        let log = run.new_log(&name, args.stage)?;
        let moved =
            rustix::stdio::dup2_stdout(&log).and_then(|()| rustix::stdio::dup2_stderr(&log));
        moved.map_err(std::io::Error::from).or_failed(|| "write the log".to_owned())?;
    }
    let mut progress = Shown::new(setup);
    let interrupt = stop_when_interrupted()?;
    let result = cabane_pipeline::step(
        setup,
        (&pipeline, &run),
        (cell, args.stage),
        &args.stages.options(),
        (&mut progress, &interrupt),
    )?;
    let seconds = result.seconds();
    let text = format!("{name}: {} {} ({seconds:.1} s)", result.stage, result.outcome);
    setup.note(text);
    if let Some(message) = result.message.as_ref().filter(|_| result.outcome != Outcome::Passed) {
        setup.warning(message);
    }
    for hint in &result.hints {
        setup.hint(hint);
    }
    Ok(result.outcome.into())
}
