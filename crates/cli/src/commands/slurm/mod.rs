// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm`: images of Slurm jobs.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod check;
mod install;
mod node;
pub(crate) mod record;
mod submit;

/// What can be done with Slurm.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SlurmCommand {
    /// Add the plugin to Slurm, or remove it
    Install(install::InstallArgs),
    /// Check whether jobs on this machine would get their images
    Check(check::CheckArgs),
    /// Resolve the images and variables of a job, for the Slurm plugin
    #[command(hide = true)]
    Submit(submit::SubmitArgs),
    /// Resolve devices or the MPI of a step on its node, for the Slurm plugin
    #[command(hide = true)]
    Node(node::NodeArgs),
    /// Record the images of a job step
    #[command(hide = true)]
    Record(record::RecordArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn slurm(setup: &Setup, command: &SlurmCommand) -> Result<ExitCode> {
    match command {
        SlurmCommand::Install(args) => install::install(setup, args)?,
        SlurmCommand::Check(args) => return check::check(setup, args),
        SlurmCommand::Submit(args) => submit::submit(setup, args)?,
        SlurmCommand::Node(args) => node::node(setup, args)?,
        SlurmCommand::Record(args) => record::record(args)?,
    }
    Ok(exit_codes::SUCCESS)
}
