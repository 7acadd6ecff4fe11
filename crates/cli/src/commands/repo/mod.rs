// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo`: repositories.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::ExitCode;
use crate::setup::Setup;

pub(crate) mod deduplicate;
pub(crate) mod gc;
pub(crate) mod import;
pub(crate) mod maintain;
pub(crate) mod migrate;
pub(crate) mod pin;
mod progress;

/// What can be done with repositories.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RepoCommand {
    /// Create a repository
    Create(maintain::CreateArgs),
    /// Show the contents of a repository and check its integrity
    Status(maintain::StatusArgs),
    /// Clean up a repository and rebuild its index
    Update(maintain::UpdateArgs),
    /// Copy all images of a repository to another one
    Migrate(migrate::MigrateArgs),
    /// Copy the images of a uenv repository
    Import(import::ImportArgs),
    /// Remove unused or surplus images
    Gc(gc::GcArgs),
    /// Store parts that images share only once
    Deduplicate(deduplicate::DeduplicateArgs),
    /// Protect labels from `gc`, or list the protected ones
    Pin(pin::PinArgs),
    /// Stop protecting labels from `gc`
    Unpin(pin::UnpinArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn repo(setup: &Setup, command: &RepoCommand) -> Result<ExitCode> {
    match command {
        RepoCommand::Create(args) => maintain::create(setup, args),
        RepoCommand::Status(args) => maintain::status(setup, args),
        RepoCommand::Update(args) => maintain::update(setup, args),
        RepoCommand::Migrate(args) => migrate::migrate(setup, args),
        RepoCommand::Import(args) => import::import(setup, args),
        RepoCommand::Deduplicate(args) => deduplicate::deduplicate(setup, args),
        RepoCommand::Gc(args) => gc::gc(setup, args),
        RepoCommand::Pin(args) => pin::pin(setup, args),
        RepoCommand::Unpin(args) => pin::unpin(setup, args),
    }
}
