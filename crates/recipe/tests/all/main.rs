// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this crate promises to those who write recipes, in one binary.

mod accepted;
mod convert;
mod devices;
mod engine_environments;
mod environments;
mod hostile;
mod memory;
mod properties;
mod refused;
mod settings;
mod stack;

use std::path::Path;

use cabane_recipe::{ConfigText, Mistakes, Recipe, parse_config};

fn parse(text: &str) -> Result<Recipe, Mistakes> {
    parse_config(&ConfigText { path: Path::new("config.yaml"), text: text.as_bytes() })
}

/// Returns the recipe, or panics with what its author would see.
fn accepted(text: &str) -> Recipe {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}
