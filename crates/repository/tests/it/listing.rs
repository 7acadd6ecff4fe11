// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Large repositories.

use std::fs;

use cabane_label::NameMatch;
use cabane_repository::Record;

use crate::support::World;

const MANY: u32 = 10_000;

/// Fills a repository with refs and empty image directories, as adding would, but quickly.
fn fill(world: &World) -> Vec<String> {
    let mut labels: Vec<String> = (0..MANY).map(|number| put(world, number)).collect();
    labels.sort();
    labels
}

fn put(world: &World, number: u32) -> String {
    let digest = format!("{number:016x}{}", "0".repeat(48));
    let (name, version) = (format!("stack{}", number % 100), number / 100);
    let label = format!("{name}/{version}:v1@daint%gh200");
    let json = format!(
        r#"{{"version":1,"label":"{label}","digest":"{digest}","size":4000000000,
            "date":"2026-11-21T10:00:00.5Z","format":"squashfs","mount":"/user-environment",
            "description":"a stack for a test of many stacks in one place",
            "views":["default","develop","modules"],"default_view":"default"}}"#
    );
    fs::create_dir(world.file("images").join(&digest)).unwrap();
    let file = format!("{name},{version},v1,daint,gh200,{},18ea0717daf9a500.json", &digest[..16]);
    fs::write(world.file("refs").join(file), json).unwrap();
    label
}

fn labels(records: &[Record]) -> Vec<String> {
    let mut labels: Vec<String> = records.iter().map(|one| one.label.to_string()).collect();
    labels.sort();
    labels
}

#[test]
fn ten_thousand_images_are_listed_with_and_without_the_index() {
    let world = World::new();
    let expected = fill(&world);
    let without = world.repository.records().unwrap();
    world.repository.update().unwrap();
    let with = world.repository.records().unwrap();
    assert_eq!(labels(&without), expected);
    assert_eq!(with, without);
}

#[test]
fn records_are_sorted_by_label() {
    let world = World::new();
    for name in ["c", "a", "b"] {
        world.add(name, 1).unwrap();
    }
    let records = world.repository.records().unwrap();
    assert!(records.is_sorted_by(|one, next| one.label < next.label));
}

#[test]
fn one_of_many_images_is_found() {
    let world = World::new();
    (0..300).for_each(|number| drop(put(&world, number)));
    let found = world.repository.find(&"stack7/2".parse().unwrap(), NameMatch::Exact).unwrap();
    assert_eq!(labels(&found), ["stack7/2:v1@daint%gh200"]);
}
