// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane catalogue`: images as a website.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod build;
mod serve;

/// What can be done with a catalog.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CatalogueCommand {
    /// Write the images of a registry or of the repositories as a website
    Build(Box<build::BuildArgs>),
    /// Show a catalog in the browser of this machine
    Serve(serve::ServeArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn catalogue(setup: &Setup, command: &CatalogueCommand) -> Result<ExitCode> {
    match command {
        CatalogueCommand::Build(args) => build::build(setup, args)?,
        CatalogueCommand::Serve(args) => serve::serve(setup, args)?,
    }
    Ok(exit_codes::SUCCESS)
}
