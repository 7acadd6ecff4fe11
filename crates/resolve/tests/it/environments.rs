// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which environment file a name means, and what it stands on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_recipe::{EnvironmentFile, EnvironmentReference};
use cabane_report::Result;
use cabane_resolve::EnvironmentFinder;
use tempfile::TempDir;

/// A directory with environment files.
fn files(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

fn load(place: &Path, text: &str) -> Result<EnvironmentFile> {
    let directories: Vec<PathBuf> = ["own", "site"].map(|name| place.join(name)).into();
    let finder = EnvironmentFinder { directories: &directories, variables: &BTreeMap::new() };
    finder.load(&EnvironmentReference::new(text, place))
}

fn complaint(place: &Path, text: &str) -> String {
    let error = load(place, text).unwrap_err();
    format!("{error}\n{}", error.hints().join("\n")).replace(place.to_str().unwrap(), "PLACE")
}

#[test]
fn every_base_that_cannot_be_used_is_reported() {
    let place = files(&[
        ("own/a.toml", "base = [\"gone\", \"./b.toml\", \"lost\"]\n"),
        ("own/b.toml", "imges = []\n"),
    ]);
    let error = load(place.path(), "a").unwrap_err();
    let text = error.texts().0;
    assert!(text.starts_with("3 bases of "), "{text}");
    for part in ["`gone`, the base of ", "b.toml:1:1: unknown key `imges`", "`lost`, the base of "]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_first_directory_with_a_file_of_the_name_decides() {
    let place = files(&[
        ("own/a.toml", "description = \"own\""),
        ("site/a.toml", "description = \"site\""),
        ("site/b.toml", "base = \"a\""),
    ]);
    let descriptions =
        ["a", "b", "site/a.toml"].map(|name| load(place.path(), name).unwrap().description);
    assert_eq!(descriptions.map(Option::unwrap), ["own", "own", "site"]);
}

#[test]
fn what_is_no_regular_file_is_not_read() {
    let place = files(&[("own/a.toml", "base = \"./pipe.toml\"")]);
    let made =
        std::process::Command::new("mkfifo").arg(place.path().join("own/pipe.toml")).status();
    assert!(made.unwrap().success());
    let said = complaint(place.path(), "a");
    assert!(said.starts_with("cannot read the environment file PLACE/own/pipe.toml"), "{said}");
    let error = load(place.path(), "own/pipe.toml").unwrap_err();
    let reasons: Vec<String> = error.causes().map(ToString::to_string).collect();
    assert_eq!(reasons, ["it is not a regular file"]);
    assert!(load(place.path(), "/dev/null").is_err());
}

#[test]
fn a_later_base_wins_over_an_earlier_one_and_the_file_over_both() {
    let place = files(&[
        ("own/a.toml", "description = \"a\"\nworkdir = \"/a\"\nimages = [\"a\"]"),
        ("own/b.toml", "description = \"b\"\nworkdir = \"/b\"\nimages = [\"b\"]"),
        ("own/c.toml", "base = [\"a\", \"b\"]\nworkdir = \"/c\"\nimages = [\"c\", \"a\"]"),
    ]);
    assert_eq!(
        load(place.path(), "c").unwrap().to_toml(&[]),
        "description = \"b\"\nimages = [\n  \"a\",\n  \"b\",\n  \"c\",\n]\nworkdir = \"/c\"\n"
    );
}

#[test]
fn a_loop_through_a_link_is_found() {
    let place = files(&[("own/a.toml", "base = \"b\"")]);
    symlink("a.toml", place.path().join("own/b.toml")).unwrap();
    assert_eq!(
        complaint(place.path(), "a"),
        "an environment file is its own base: PLACE/own/a.toml -> PLACE/own/b.toml\n\
         remove `base` from one of them"
    );
}

#[test]
fn a_name_that_nothing_is_like_is_answered_with_where_it_was_looked_for() {
    let place = files(&[("own/a.toml", "")]);
    assert_eq!(
        complaint(place.path(), "climate"),
        "there is no environment file `climate`\n\
         `climate.toml` is looked for in PLACE/own, PLACE/site; a path is written `./climate.toml`"
    );
}

#[test]
fn a_base_that_cannot_be_read_is_reported_with_the_line_that_names_it() {
    let place = files(&[("a.toml", "# a comment\nbase = [\n  \"./gone.toml\",\n]\n")]);
    let complaint = complaint(place.path(), "./a.toml");
    assert_eq!(
        complaint.trim_end(),
        "cannot read the environment file PLACE/gone.toml, the base of PLACE/a.toml:3:3"
    );
}
