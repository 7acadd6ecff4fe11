// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline`: from a repository of recipes to tested releases.

use std::path::PathBuf;
use std::time::Duration;

use cabane_evidence::Outcome;
use cabane_label::LabelPattern;
use cabane_pipeline::{
    DIRECTORY, Pipeline, PlanRequest, Publishing, RunDirectory, Selection, StepOptions,
};
use cabane_recipe::parse_time;
use cabane_report::Result;
use clap::{Args, Subcommand};

use crate::exit_codes::{self, ExitCode};
use crate::registry::RegistryArgs;
use crate::setup::Setup;

mod catalogue;
mod generate;
mod lock;
mod plan;
mod report;
mod run;
mod status;
mod step;

/// What can be done with a pipeline.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PipelineCommand {
    /// Check the description of a pipeline
    Check(plan::CheckArgs),
    /// Show what is left to do for each cell, and why
    Plan(plan::PlanArgs),
    /// Build, check, publish, and promote what is left
    Run(run::RunArgs),
    /// Look up the container images and branches that recipes build on, and write the lock file
    Lock(lock::LockArgs),
    /// Generate a file for the CI of GitLab or GitHub
    Generate(generate::GenerateArgs),
    /// Carry out one stage of one cell
    Step(step::StepArgs),
    /// Show the results of each cell
    Status(status::StatusArgs),
    /// Print the log of a stage
    Logs(status::LogsArgs),
    /// Write the results of each cell as a web page
    Report(report::ReportArgs),
    /// Write a website of the released images
    Catalogue(catalogue::CatalogueArgs),
    /// Cancel the jobs of an interrupted run
    Cancel(run::CancelArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn pipeline(setup: &Setup, command: &PipelineCommand) -> Result<ExitCode> {
    let done = |outcome: Result<()>| outcome.map(|()| exit_codes::SUCCESS);
    match command {
        PipelineCommand::Check(args) => done(plan::check(setup, args)),
        PipelineCommand::Plan(args) => done(plan::plan(setup, args)),
        PipelineCommand::Lock(args) => done(lock::lock(setup, args)),
        PipelineCommand::Run(args) => run::run(setup, args),
        PipelineCommand::Generate(args) => done(generate::generate(setup, args)),
        PipelineCommand::Step(args) => step::step(setup, args),
        PipelineCommand::Status(args) => status::status(setup, args),
        PipelineCommand::Logs(args) => done(status::logs(setup, args)),
        PipelineCommand::Report(args) => done(report::report(setup, args)),
        PipelineCommand::Catalogue(args) => done(catalogue::catalogue(setup, args)),
        PipelineCommand::Cancel(args) => done(run::cancel(setup, args)),
    }
}

/// A pipeline, and the directory of its run.
#[derive(Debug, Args)]
struct PipelineArgs {
    /// The pipeline: a file, or a directory with pipeline.yaml or config.yaml
    #[arg(short, long, value_name = "FILE", default_value = ".")]
    file: PathBuf,
    /// The directory of the run, with all results and logs; default: .cabane-pipeline beside the
    /// pipeline. With --on slurm, every node must see it
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
}

impl PipelineArgs {
    fn open(&self) -> Result<(Pipeline, RunDirectory)> {
        let pipeline = Pipeline::open(&self.file)?;
        let run = match &self.run {
            Some(run) => RunDirectory::new(run)?,
            None => RunDirectory::new(&pipeline.directory.join(DIRECTORY))?,
        };
        Ok((pipeline, run))
    }

    /// Opens the pipeline, and warns of the cells that are left out.
    fn open_with_warnings(&self, setup: &Setup) -> Result<(Pipeline, RunDirectory)> {
        let (pipeline, run) = self.open()?;
        for mistake in &pipeline.mistakes {
            setup.warning(mistake);
        }
        if let Some(warning) = pipeline.lock_warning() {
            setup.warning(warning);
        }
        Ok((pipeline, run))
    }
}

/// Which cells are meant.
#[derive(Debug, Args)]
struct SelectionArgs {
    /// Only these cells: any part of name/version@system%uarch. Repeatable
    #[arg(long, value_name = "PATTERN")]
    only: Vec<LabelPattern>,
}

impl SelectionArgs {
    /// Cells of other systems are meant only if one is named.
    fn selection(&self, setup: &Setup) -> Selection {
        let names_a_system = self.only.iter().any(|pattern| pattern.system.is_some());
        let system = if names_a_system { None } else { setup.system() };
        Selection { only: self.only.clone(), systems: system.into_iter().collect() }
    }
}

/// How a stage is carried out.
#[derive(Debug, Args)]
struct StageArgs {
    #[command(flatten)]
    publishing: PublishingArgs,
    /// Sign results and images with this private key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The private key of the channel; default: that of --key
    #[arg(long, value_name = "FILE")]
    channel_key: Option<PathBuf>,
    /// The number of parallel processes of each build
    #[arg(long, value_name = "N")]
    build_jobs: Option<usize>,
    /// The time limit of each check that has none of its own
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    limit: Duration,
}

impl StageArgs {
    fn options(&self) -> StepOptions {
        StepOptions {
            publishing: self.publishing.publishing(),
            key: self.key.clone(),
            channel_key: self.channel_key.clone(),
            limit: self.limit,
            jobs: self.build_jobs,
        }
    }
}

/// The registry, if images go to one.
#[derive(Debug, Args)]
struct PublishingArgs {
    #[command(flatten)]
    registry: RegistryArgs,
    /// Use no registry: images are built and checked only
    #[arg(long, conflicts_with_all = ["registry", "token", "username"])]
    offline: bool,
}

impl PublishingArgs {
    fn publishing(&self) -> Publishing {
        Publishing { registry: self.registry.request(), offline: self.offline }
    }
}

/// What is planned.
#[derive(Debug, Args)]
struct PlanningArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only cells that have changed since this commit, tag, or branch
    #[arg(long, value_name = "REVISION")]
    since: Option<String>,
    /// Repeat what failed
    #[arg(long)]
    retry: bool,
}

impl PlanningArgs {
    fn request(&self, setup: &Setup, publishing: Publishing) -> PlanRequest {
        PlanRequest {
            selection: self.selection.selection(setup),
            since: self.since.clone(),
            retry: self.retry,
            publishing,
        }
    }
}

/// Returns the exit code of all outcomes: one that is not tested is no success.
fn code_of_all(outcomes: &[Outcome]) -> ExitCode {
    let bad = [Outcome::Failed, Outcome::Error, Outcome::NotTested];
    bad.into_iter().find(|one| outcomes.contains(one)).unwrap_or(Outcome::Passed).into()
}
