// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane recipe`: looking at recipes.

use std::path::PathBuf;

use clap::Args;

use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::report::CommandResult;
use crate::setup::Setup;

/// Read a recipe and name every mistake in it
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory of the recipe
    #[arg(required = true)]
    recipes: Vec<PathBuf>,
}

pub(super) fn check(setup: &Setup, args: &CheckArgs) -> CommandResult<ExitCode> {
    let mut code = exit_codes::SUCCESS;
    for directory in &args.recipes {
        match cabane_build::read_recipe(directory) {
            Ok(recipe) => setup.printer.note(format_args!(
                "{}: {}, engine {}",
                directory.display(),
                recipe.name,
                recipe.engine.name()
            )),
            Err(error) => {
                let error = convert::build_error(error);
                error.print(setup.printer);
                code = error.code;
            }
        }
    }
    Ok(code)
}
