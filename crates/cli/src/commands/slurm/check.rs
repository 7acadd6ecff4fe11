// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm check`: whether jobs on this machine would get their images.

use std::path::PathBuf;

use cabane_job::find_faults;
use cabane_report::Result;
use clap::Args;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Check whether jobs on this machine would get their images
#[derive(Debug, Args)]
#[command(after_help = "\
It changes nothing and starts no job, so you can use it as the health check of a node. The
exit code is 10 if it finds a problem.")]
pub(crate) struct CheckArgs {
    /// The plugin configuration of Slurm; default: the file that `scontrol show config` names, or /etc/slurm/plugstack.conf
    #[arg(long, value_name = "PATH")]
    plugstack: Option<PathBuf>,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let faults = find_faults(args.plugstack.as_deref());
    for fault in &faults {
        setup.warning(fault);
    }
    if faults.is_empty() {
        setup.note("jobs get their images here");
        return Ok(exit_codes::SUCCESS);
    }
    Ok(exit_codes::UNHEALTHY)
}
