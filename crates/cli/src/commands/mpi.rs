// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: the MPI of programs, machines and images.

use clap::Subcommand;

use super::mpi_inspect;
use crate::exit_codes::ExitCode;
use crate::report::CommandResult;
use crate::setup::Setup;

/// What can be done with MPI.
#[derive(Debug, Subcommand)]
pub(crate) enum MpiCommand {
    /// Tell which MPI a program, a library or a directory needs or is
    Inspect(mpi_inspect::InspectArgs),
}

pub(super) fn mpi(setup: &Setup, command: &MpiCommand) -> CommandResult<ExitCode> {
    match command {
        MpiCommand::Inspect(args) => mpi_inspect::inspect(setup, args),
    }
}
