// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry`: registries.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::ExitCode;
use crate::setup::Setup;

mod list;
mod mirror;

/// What can be done with registries.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RegistryCommand {
    /// Compare the list of images with the images in the registry
    Check(list::CheckArgs),
    /// Repair the list of images, or create it
    Reindex(list::ReindexArgs),
    /// Add the packages of images that other tools pushed to the list
    Enrich(list::EnrichArgs),
    /// Write the list of images for a web server
    ServeList(list::ServeListArgs),
    /// Copy images and channels to another registry
    Mirror(mirror::MirrorArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn registry(setup: &Setup, command: &RegistryCommand) -> Result<ExitCode> {
    match command {
        RegistryCommand::Check(args) => list::check(setup, args),
        RegistryCommand::Reindex(args) => list::reindex(setup, args),
        RegistryCommand::Enrich(args) => list::enrich(setup, args),
        RegistryCommand::ServeList(args) => list::serve_list(setup, args),
        RegistryCommand::Mirror(args) => mirror::mirror(setup, args),
    }
}
