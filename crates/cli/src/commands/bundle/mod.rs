// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane bundle`: images of a registry in a file.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod create;
mod install;
mod ls;

/// What can be done with bundles.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BundleCommand {
    /// Write images and channels of a registry to a file
    Create(create::CreateArgs),
    /// List the images in a bundle
    Ls(ls::LsArgs),
    /// Add the images of a bundle to the repository
    Install(install::InstallArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn bundle(setup: &Setup, command: &BundleCommand) -> Result<ExitCode> {
    match command {
        BundleCommand::Create(args) => create::create(setup, args)?,
        BundleCommand::Ls(args) => ls::ls(setup, args)?,
        BundleCommand::Install(args) => install::install(setup, args)?,
    }
    Ok(exit_codes::SUCCESS)
}
