// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Malformed files and the exact messages that their authors see.
//!
//! The cases stand in `tests/data`, where they can be read as what they are: a
//! part of the documentation. When a message changes, the failing test leaves
//! a new version of the file to compare with the old one.

use std::fmt::Write as _;
use std::path::Path;

use cabane_recipe::{FileText, parse_settings, parse_vendor_manifest};

struct Case<'a> {
    name: &'a str,
    text: &'a str,
    reported: &'a str,
}

fn cases(table: &str) -> Vec<Case<'_>> {
    let (_, cases) = table.split_once("\n===== ").expect("a table has cases");
    cases
        .split("\n===== ")
        .map(|case| {
            let (name, rest) = case.split_once('\n').expect("a case has a name");
            let (text, reported) = match rest.strip_prefix("-----\n") {
                Some(reported) => ("", reported),
                None => rest.split_once("\n-----\n").expect("a case has an answer"),
            };
            // The new line before the hyphens belongs to the text.
            let text = &rest[..if text.is_empty() { 0 } else { text.len() + 1 }];
            Case { name, text, reported: reported.trim_end() }
        })
        .collect()
}

/// Compares every case of a table with what is reported now.
fn assert_reported(file: &str, tell: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let table = std::fs::read_to_string(&path).unwrap();
    let cases = cases(&table);
    let mut renewed = table[..table.find("\n===== ").unwrap()].to_owned();
    let mut different = String::new();
    for Case { name, text, reported } in cases {
        let now = tell(text);
        if now != reported {
            let _ =
                write!(different, "\n## {name}\n{text}-- expected\n{reported}\n-- told\n{now}\n");
        }
        let _ = write!(renewed, "\n===== {name}\n{text}-----\n{now}\n");
    }
    if !different.is_empty() {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        std::fs::write(&new, renewed).unwrap();
        panic!("{different}\nthe table as it would be is {}", new.display());
    }
}

#[test]
fn the_author_of_a_malformed_recipe_gets_a_hint_to_type() {
    assert_reported("refused-recipes.txt", |text| match super::parse(text) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    });
}

#[test]
fn the_author_of_a_malformed_configuration_gets_a_hint_to_type() {
    assert_reported("refused-settings.txt", |text| {
        match parse_settings(Path::new("config.toml"), text.as_bytes()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    });
}

#[test]
fn the_author_of_a_malformed_environment_file_gets_a_hint_to_type() {
    assert_reported("refused-environments.txt", |text| match super::environments::parse(text) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    });
}

#[test]
fn the_author_of_a_malformed_recipe_for_spack_gets_a_hint_to_type() {
    assert_reported("refused-stacks.txt", |text| match super::stack::Files::of(text).recipe() {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    });
}

#[test]
fn no_case_is_named_twice() {
    let stacks = include_str!("../data/refused-stacks.txt");
    let environments = include_str!("../data/refused-environments.txt");
    let recipes = include_str!("../data/refused-recipes.txt");
    let settings = include_str!("../data/refused-settings.txt");
    let twice: Vec<_> = [recipes, settings, environments, stacks]
        .iter()
        .flat_map(|table| {
            let mut names: Vec<_> = cases(table).iter().map(|case| case.name).collect();
            names.sort_unstable();
            let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
            twice.map(|pair| pair[0]).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(twice, Vec::<&str>::new());
}

#[test]
fn the_author_of_a_malformed_manifest_gets_a_hint_to_type() {
    assert_reported("refused-vendor.txt", |text| {
        let path = Path::new("mpi.yaml");
        let text = text.as_bytes();
        match parse_vendor_manifest(&FileText { path, text }) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    });
}
