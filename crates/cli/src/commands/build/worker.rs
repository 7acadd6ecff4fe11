// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build-worker`: the other end of `cabane build --on`. Its messages may change with each version.

use std::io;
use std::path::PathBuf;

use cabane_builder::work_on_packages;
use cabane_image_build::worker_request;
use cabane_remote_build::{WorkOptions, serve, work};
use cabane_report::Result;
use clap::Subcommand;

use crate::interrupt::stop_when_interrupted;
use crate::setup::Setup;

/// What `cabane build --on` starts where the build runs.
#[derive(Debug, Subcommand)]
pub(crate) enum BuildWorkerCommand {
    /// Answer on standard output
    Serve,
    /// Build what is in a directory
    Run {
        /// The directory of the build
        directory: PathBuf,
        /// The number of parallel processes
        #[arg(long, value_name = "N")]
        jobs: Option<usize>,
        /// The number of nodes of the job
        #[arg(long, value_name = "N", default_value_t = 1)]
        nodes: usize,
        /// Leave the session of the caller
        #[arg(long)]
        detach: bool,
    },
    /// Build packages for a build on another node
    Packages {
        /// The number of parallel processes
        #[arg(long, value_name = "N")]
        jobs: Option<usize>,
    },
}

pub(crate) fn build_worker(setup: &Setup, command: &BuildWorkerCommand) -> Result<()> {
    match command {
        BuildWorkerCommand::Serve => {
            serve(setup, &mut io::stdin().lock(), &mut io::stdout().lock())
        }
        BuildWorkerCommand::Run { directory, jobs, nodes, detach } => {
            let options = WorkOptions { jobs: *jobs, nodes: *nodes, detach: *detach };
            work(setup, directory, options, &stop_when_interrupted()?)
        }
        BuildWorkerCommand::Packages { jobs } => {
            let request = |task: &_| Ok(worker_request(setup, task, *jobs)?);
            let interrupt = stop_when_interrupted()?;
            Ok(work_on_packages(io::stdin(), io::stdout(), &request, &interrupt)?)
        }
    }
}
