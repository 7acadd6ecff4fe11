// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files in a directory: whole, and those of people left alone.

use std::fs;
use std::os::unix::fs::symlink;

use cabane_probe::SaveError;

use crate::made_up::MadeUp;

fn machine() -> MadeUp {
    MadeUp::new().gcc("/usr/bin", "", "12.2.0")
}

#[test]
fn what_was_written_before_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("new/system");
    machine().text().save(&place, false).unwrap();
    let newer = machine().says("/usr/bin/make", "GNU Make 4.3").text();
    newer.save(&place, false).unwrap();
    assert_eq!(fs::read_to_string(place.join("packages.yaml")).unwrap(), newer.packages);
}

#[test]
fn nothing_is_written_beside_a_file_that_was_changed_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("packages.yaml");
    fs::write(&file, "packages: {mine: {}}\n").unwrap();
    let error = machine().text().save(directory.path(), false).unwrap_err();
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let is_named = matches!(error, SaveError::Changed { path } if path == file);
    assert!(is_named && names == ["packages.yaml"], "{names:?}");
}

#[test]
fn with_force_a_changed_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("packages.yaml");
    fs::write(&file, "packages: {mine: {}}\n").unwrap();
    let text = machine().text();
    text.save(directory.path(), true).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), text.packages);
}

#[test]
fn a_link_that_shares_a_file_between_systems_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let text = machine().text();
    let shared = directory.path().join("shared.yaml");
    fs::write(&shared, &text.network).unwrap();
    symlink(&shared, directory.path().join("network.yaml")).unwrap();
    let error = text.save(directory.path(), false).unwrap_err();
    assert!(matches!(error, SaveError::Changed { .. }));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = machine().text().save(&file.join("system"), false).unwrap_err();
    assert!(matches!(error, SaveError::Write { path, .. } if path.starts_with(file)));
}
