// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane system`: systems, for building.

use cabane_report::Result;
use clap::Subcommand;

use crate::setup::Setup;

pub(crate) mod devices;
pub(crate) mod probe;
pub(crate) mod text;

/// What can be done with systems.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SystemCommand {
    /// Detect the hardware and software of this machine, for building
    Probe(probe::ProbeArgs),
    /// List the devices of this machine that containers can use
    Devices(devices::DevicesArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn system(setup: &Setup, command: &SystemCommand) -> Result<()> {
    match command {
        SystemCommand::Probe(args) => probe::probe(setup, args),
        SystemCommand::Devices(args) => devices::devices(setup, args),
    }
}
