// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Machines that do not exist, and this one beside what real Spack says of it.

mod files;
mod machines;
mod made_up;
mod programs;
mod reads;
mod spack;

#[test]
fn no_file_of_this_test_is_forgotten() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let declared = std::fs::read_to_string(directory.join("main.rs")).unwrap();
    let names = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sources = names.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let forgotten: Vec<_> = sources
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "main" && !declared.contains(&format!("mod {name};")))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new());
}
