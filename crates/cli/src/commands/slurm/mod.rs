// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm`: images of Slurm jobs.

use clap::Subcommand;

use crate::exit_codes::ExitCode;
use crate::report::CommandResult;
use crate::setup::Setup;

pub(crate) mod around;
pub(crate) mod check;
pub(crate) mod install;
pub(crate) mod mpi;
pub(crate) mod node;
pub(crate) mod node_mpi;
pub(crate) mod record;
pub(crate) mod submit;
pub(crate) mod ways;

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
pub(crate) fn slurm(setup: &Setup, command: &SlurmCommand) -> CommandResult<ExitCode> {
    match command {
        SlurmCommand::Install(args) => install::install(setup, args),
        SlurmCommand::Check(args) => check::check(setup, args),
        SlurmCommand::Submit(args) => submit::submit(setup, args),
        SlurmCommand::Node(args) => node::node(setup, args),
        SlurmCommand::Record(args) => record::record(args),
    }
}
