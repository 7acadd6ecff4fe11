// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this crate promises to those who write recipes, in one binary.

mod accepted;
mod convert;
mod devices;
mod environments;
mod hostile;
mod memory;
mod properties;
mod refused;
mod settings;
mod stack;

use std::path::Path;

use cabane_recipe::{ConfigText, Recipe, RecipeError, parse_config};

fn parse(text: &str) -> Result<Recipe, RecipeError> {
    parse_config(&ConfigText {
        path: Path::new("config.yaml"),
        text: text.as_bytes(),
    })
}

/// Returns the recipe, or panics with what its author would be told.
fn accepted(text: &str) -> Recipe {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn every_file_of_tests_is_part_of_this_binary() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    let main = std::fs::read_to_string(directory.join("main.rs")).unwrap();
    let forgotten: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .filter(|module| module != "main" && !main.contains(&format!("mod {module};")))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new());
}
