// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane add`, `remove`, `lock`, and `update`: the packages of a recipe.

use std::path::PathBuf;

use clap::Args;

mod edit;
mod lock;
mod names;

pub(crate) use edit::{AddArgs, RemoveArgs, add, remove};
pub(crate) use lock::{LockArgs, UpdateArgs, lock, update};

/// The recipe that a command is about.
#[derive(Debug, Args)]
struct RecipeArgs {
    /// The directory of the recipe; default: this directory
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    recipe: PathBuf,
}
