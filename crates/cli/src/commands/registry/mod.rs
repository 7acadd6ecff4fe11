// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry`: registries.

use cabane_label::Namespace;
use cabane_report::Result;
use cabane_transfer::Connection;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod gc;
mod list;
mod log;
mod mirror;
mod usage;

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
    /// Show which labels moved to which images, when, and by whom
    Log(log::LogArgs),
    /// Show how much space images take
    Usage(usage::UsageArgs),
    /// Delete old or surplus images
    Gc(gc::GcArgs),
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
        RegistryCommand::Log(args) => done(log::log(setup, args)),
        RegistryCommand::Usage(args) => done(usage::usage(setup, args)),
        RegistryCommand::Gc(args) => done(gc::gc(setup, args)),
    }
}

fn done(outcome: Result<()>) -> Result<ExitCode> {
    outcome.map(|()| exit_codes::SUCCESS)
}

fn namespace(connection: &Connection, typed: Option<&Namespace>) -> Namespace {
    typed.cloned().unwrap_or_else(|| connection.namespace_of(None))
}
