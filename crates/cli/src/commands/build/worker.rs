// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build-worker`: the other end of `cabane build --on`. Its messages may change with each version.

use std::io;
use std::path::PathBuf;

use cabane_remote_build::{serve, work};
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
        /// Leave the session of the caller
        #[arg(long)]
        detach: bool,
    },
}

pub(crate) fn build_worker(setup: &Setup, command: &BuildWorkerCommand) -> Result<()> {
    match command {
        BuildWorkerCommand::Serve => {
            serve(setup, &mut io::stdin().lock(), &mut io::stdout().lock())
        }
        BuildWorkerCommand::Run { directory, jobs, detach } => {
            work(setup, directory, (*jobs, *detach), &stop_when_interrupted()?)
        }
    }
}
