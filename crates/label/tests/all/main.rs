// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the crate does as a whole, seen from outside.

mod digests;
mod images;
mod labels;
mod messages;
mod mount_points;
mod patterns;
mod properties;

#[test]
fn no_file_of_tests_is_forgotten() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all");
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().file_name());
    let names = files.map(|file| file.into_string().unwrap().replace(".rs", ""));
    let forgotten: Vec<String> = names
        .filter(|n| n != "main" && !include_str!("main.rs").contains(&format!("mod {n};")))
        .collect();
    assert_eq!(forgotten, [""; 0]);
}
