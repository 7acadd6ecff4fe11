// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: the MPI of programs, machines and images.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod audit;
mod inspect;
mod swap;
mod text;

/// What can be done with MPI.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MpiCommand {
    /// Show which MPI a program, library, or directory needs or provides
    Inspect(inspect::InspectArgs),
    /// Run a command with a different MPI
    Swap(swap::SwapArgs),
    /// Test every MPI of this system and sort them by what works
    Audit(audit::AuditArgs),
}

pub(crate) fn mpi(setup: &Setup, command: &MpiCommand) -> Result<ExitCode> {
    match command {
        MpiCommand::Inspect(args) => inspect::inspect(setup, args)?,
        MpiCommand::Swap(args) => swap::swap(setup, args)?,
        MpiCommand::Audit(args) => return audit::audit(setup, args),
    }
    Ok(exit_codes::SUCCESS)
}
