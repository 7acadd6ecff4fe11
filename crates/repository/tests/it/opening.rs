// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening and creating repositories.

use std::fs;
use std::path::Path;

use cabane_repository::{Error, Kind, Repository};

use crate::support::{World, names};

fn error_of(outcome: Result<Repository, Error>, place: &Path) -> String {
    let message = outcome.unwrap_err().to_string();
    message.replace(place.to_str().unwrap(), "PLACE")
}

#[test]
fn a_directory_without_the_mark_is_not_a_repository() {
    let place = tempfile::tempdir().unwrap();
    let message = error_of(Repository::open(place.path()), place.path());
    assert_eq!(message, "no repository at PLACE");
}

#[test]
fn an_error_for_a_missing_repository_says_how_to_make_one() {
    let error = Repository::open(Path::new("/no/such/place")).unwrap_err();
    assert_eq!(error.hint().unwrap(), "`cabane repo create /no/such/place` makes one");
}

#[test]
fn a_repository_of_uenv_is_known_as_one() {
    let place = tempfile::tempdir().unwrap();
    Repository::create_uenv(place.path()).unwrap();
    let opened = Repository::open(place.path()).unwrap();
    let again = Repository::create(place.path()).unwrap_err();
    let is_there = again.to_string().contains("there is a repository at");
    assert_eq!((opened.kind(), opened.records().unwrap().len(), is_there), (Kind::Uenv, 0, true));
}

#[test]
fn a_later_format_is_not_touched() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("cabane-repository"), "cabane-repository 2\n").unwrap();
    let message = error_of(Repository::open(place.path()), place.path());
    assert_eq!(
        message,
        "the repository PLACE has format 2, and this program knows formats up to 1"
    );
}

#[test]
fn a_mark_that_says_nothing_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("cabane-repository"), "\0\0\0").unwrap();
    let message = error_of(Repository::open(place.path()), place.path());
    assert_eq!(message, "PLACE/cabane-repository does not say which format the repository has");
}

#[test]
fn a_name_with_control_characters_cannot_paint_the_terminal() {
    let message = Repository::open(Path::new("/no/\u{1b}[31mred")).unwrap_err().to_string();
    assert_eq!(message, "no repository at /no/\\u{1b}[31mred");
}

#[test]
fn a_new_repository_is_empty() {
    assert_eq!(World::new().repository.records().unwrap(), Vec::new());
}

#[test]
fn a_repository_is_created_with_the_directories_above_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b/c");
    Repository::create(&path).unwrap();
    assert!(Repository::open(&path).is_ok());
}

#[test]
fn a_new_repository_holds_no_temporary_names() {
    let world = World::new();
    assert_eq!(names(&world.file("tmp")).into_iter().collect::<Vec<_>>(), [".lock"]);
}

#[test]
fn a_repository_is_not_created_twice() {
    let world = World::new();
    let outcome = Repository::create(world.repository.path());
    let message = error_of(outcome, world.repository.path());
    assert_eq!(message, "there is a repository at PLACE already");
}

#[test]
fn a_directory_with_files_does_not_become_a_repository() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("thesis.tex"), "").unwrap();
    let message = error_of(Repository::create(place.path()), place.path());
    assert_eq!(message, "the directory PLACE is not empty: it holds `thesis.tex`");
}

#[test]
fn a_creation_that_was_killed_can_be_repeated() {
    let place = tempfile::tempdir().unwrap();
    for directory in ["images", "refs", "tmp/host-0-1-0-0-0"] {
        fs::create_dir_all(place.path().join(directory)).unwrap();
    }
    assert!(Repository::create(place.path()).is_ok());
}

#[test]
fn a_repository_is_found_when_the_working_directory_changes() {
    let repository = Repository::open(Path::new("../../../no/such/place")).unwrap_err();
    let Error::NotARepository { path } = repository else { panic!("{repository}") };
    assert!(path.is_absolute());
}
