// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs on a real Slurm: a cluster of four virtual nodes, the plugin loaded, two ordinary
//! users. After each test every node is looked at for what was left behind.

mod arena;
mod attach;
mod batch;
mod border;
mod containers;
mod devices;
mod failures;
mod losses;
mod mpi;
mod operations;
mod parts;
mod records;
mod releases;
mod requests;
mod roots;
mod stage;
mod steps;
mod swapped;
mod uarch;
mod users;

use std::fs;
use std::path::Path;

#[test]
fn no_file_of_this_test_is_forgotten() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slurm");
    let declared = fs::read_to_string(directory.join("main.rs")).unwrap();
    let forgotten: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|stem| stem != "main" && !declared.contains(&format!("mod {stem};")))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new());
}
