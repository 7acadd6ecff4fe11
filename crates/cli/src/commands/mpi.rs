// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: the MPI of programs, machines and images.

use clap::Subcommand;

use super::{mpi_audit, mpi_inspect, mpi_swap};
use crate::exit_codes::ExitCode;
use crate::report::CommandResult;
use crate::setup::Setup;

/// What can be done with MPI.
#[derive(Debug, Subcommand)]
pub(crate) enum MpiCommand {
    /// Show which MPI a program, library, or directory needs or provides
    Inspect(mpi_inspect::InspectArgs),
    /// Run a command with a different MPI
    Swap(mpi_swap::SwapArgs),
    /// Test every MPI of this system and sort them by what works
    Audit(mpi_audit::AuditArgs),
}

pub(super) fn mpi(setup: &Setup, command: &MpiCommand) -> CommandResult<ExitCode> {
    match command {
        MpiCommand::Inspect(args) => mpi_inspect::inspect(setup, args),
        MpiCommand::Swap(args) => mpi_swap::swap(setup, args),
        MpiCommand::Audit(args) => mpi_audit::audit(setup, args),
    }
}
