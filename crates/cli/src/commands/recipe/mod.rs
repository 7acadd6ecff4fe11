// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe`: recipes.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::ExitCode;
use crate::setup::Setup;

pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod show;

/// What can be done with recipes.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RecipeCommand {
    /// Check a recipe and report every mistake
    Check(check::CheckArgs),
    /// Show what Spack gets for a recipe
    Show(show::ShowArgs),
    /// Convert a recipe from format 1 or 2 to format 3
    Convert(convert::ConvertArgs),
    /// Print the JSON schema of a recipe file or a system file
    Schema(check::SchemaArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn recipe(setup: &Setup, command: &RecipeCommand) -> Result<ExitCode> {
    match command {
        RecipeCommand::Check(args) => check::check(setup, args),
        RecipeCommand::Show(args) => show::show(setup, args),
        RecipeCommand::Convert(args) => convert::convert(setup, args),
        RecipeCommand::Schema(args) => check::schema(setup, args),
    }
}
