// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Real libraries of MPI: what is said about them, and whether it is so.
//!
//! Each test of a substitution asks first and then runs two ranks: what is called possible
//! must work with the substitute, and what is refused must fail if it is done all the same.

mod containers;
mod families;
mod languages;
mod libraries;
mod probe;
mod substitutes;
mod support;

use std::fs;
use std::path::Path;

#[test]
fn no_file_of_this_test_is_forgotten() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let declared = fs::read_to_string(directory.join("main.rs")).unwrap();
    let forgotten: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()?
                .to_str()
                .map(str::to_owned)
        })
        .filter(|name| name != "main" && !declared.contains(&format!("mod {name};")))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new());
}
