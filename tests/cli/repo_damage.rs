// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane repo status` finds, and that what it says repairs it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use cabane_testkit::{is_root, needs, not_run};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};
use crate::registry::Shared;

fn repository(cabane: &Cabane) -> PathBuf {
    cabane.world.path("home/.local/share/cabane/repository")
}

fn image_directory(cabane: &Cabane) -> PathBuf {
    let mut entries = fs::read_dir(repository(cabane).join("images")).unwrap();
    entries.next().unwrap().unwrap().path()
}

/// Returns the kinds of what is damaged, and all hints to repair it.
fn damaged(cabane: &Cabane, arguments: &[&str]) -> (Vec<String>, Vec<String>) {
    let arguments = [&["repo", "status", "--json"], arguments].concat();
    // As it is typed, and so not blanked.
    let output = cabane.command(&arguments).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = status[0]["damaged"].as_array().unwrap();
    assert_eq!(output.status.code(), Some(if all.is_empty() { 0 } else { 6 }));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kinds = all.iter().map(|one| text(&one["kind"])).collect();
    let remedies = all.iter().flat_map(|one| one["remedies"].as_array().unwrap());
    (kinds, remedies.map(text).collect())
}

/// Damages a repository, types all hints to repair it, and returns what
/// was found before and after.
fn repaired(cabane: &Cabane, corruption: impl FnOnce(&Path)) -> [Vec<String>; 2] {
    corruption(&image_directory(cabane));
    let (before, remedies) = damaged(cabane, &["--verify"]);
    for remedy in &remedies {
        let mut shell = cabane.other("/bin/sh");
        let line = format!("cabane() {{ \"$CABANE\" \"$@\"; }}\n{remedy}");
        let ended = cabane.finish(shell.args(["-c", &line]));
        assert_eq!(ended.code, 0, "{remedy}: {}", ended.stderr);
    }
    [before, damaged(cabane, &["--verify"]).0]
}

/// A repository with an image that a registry has, too.
fn shared() -> Shared {
    Shared::pushed(Who::OrdinaryUser)
}

fn repaired_from_registry(corruption: impl FnOnce(&Path)) -> [Vec<String>; 2] {
    let shared = shared();
    let seen = repaired(&shared.cabane, corruption);
    let hello = shared.run(&["run", "app", "--", "hello"]).stdout;
    assert_eq!(hello, "hello from app\n");
    seen
}

fn kinds(kinds: &[&str]) -> [Vec<String>; 2] {
    [kinds.iter().map(ToString::to_string).collect(), Vec::new()]
}

#[test]
fn a_missing_image_is_brought_again() {
    needs!("docker-registry");
    let seen = repaired_from_registry(|image| fs::remove_dir_all(image).unwrap());
    assert_eq!(seen, kinds(&["missing-image"]));
}

#[test]
fn a_missing_file_of_an_image_is_brought_again() {
    needs!("docker-registry");
    let seen = repaired_from_registry(|image| fs::remove_file(image.join("image")).unwrap());
    assert_eq!(seen, kinds(&["unreadable-image"]));
}

#[test]
fn a_cut_image_is_brought_again() {
    needs!("docker-registry");
    let seen = repaired_from_registry(|image| {
        let file = fs::File::options().write(true).open(image.join("image"));
        file.unwrap().set_len(1000).unwrap();
    });
    assert_eq!(seen, kinds(&["wrong-size"]));
}

#[test]
fn changed_content_is_brought_again() {
    needs!("docker-registry");
    let seen = repaired_from_registry(|image| {
        let path = image.join("image");
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert_eq!(seen, kinds(&["wrong-digest"]));
}

#[test]
fn metadata_that_are_missing_or_damaged_are_brought_again() {
    needs!("docker-registry");
    let missing = repaired_from_registry(|image| fs::remove_dir_all(image.join("meta")).unwrap());
    let damaged =
        repaired_from_registry(|image| fs::write(image.join("meta/env.json"), "{").unwrap());
    let expected = kinds(&["unreadable-meta"]);
    assert_eq!([missing, damaged], [expected.clone(), expected]);
}

#[test]
fn what_writers_left_and_what_does_not_belong_there_is_removed() {
    let cabane = Cabane::with_app(everybody()[0]);
    let seen = repaired(&cabane, |image| {
        let root = image.parent().unwrap().parent().unwrap();
        fs::write(root.join("refs/notes of mine"), "").unwrap();
        fs::write(root.join("index"), "x").unwrap();
        fs::create_dir_all(root.join("pins")).unwrap();
        fs::write(root.join("pins/x"), "x").unwrap();
        fs::create_dir(root.join("images").join("f".repeat(64))).unwrap();
    });
    let found = ["no-label", "bad-index", "unreadable-pin", "stranger"];
    assert_eq!(seen, kinds(&found));
}

#[test]
fn what_anybody_may_change_is_closed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = repaired(&cabane, |image| {
        for path in [image, &image.join("image"), image.parent().unwrap()] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
    });
    assert_eq!(seen, kinds(&["open-to-all"; 3]));
}

#[test]
fn an_image_that_is_half_closed_is_closed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = repaired(&cabane, |image| {
        let mode = Permissions::from_mode(0o640);
        fs::set_permissions(image.join("image"), mode).unwrap();
    });
    assert_eq!(seen, kinds(&["half-closed"]));
}

#[test]
fn an_image_of_another_user_is_given_back() {
    if !is_root() {
        not_run!("needs root, to give files away");
    }
    let cabane = Cabane::with_app(Who::Root);
    let seen = repaired(&cabane, |image| {
        chown(image.join("image"), Some(61_240), None).unwrap();
    });
    assert_eq!(seen, kinds(&["other-owner"]));
}

#[test]
fn a_directory_that_cannot_be_read_is_named_and_opened() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.run(&["repo", "pin", "app"]).success();
    let seen = repaired(&cabane, |image| {
        let root = image.parent().unwrap().parent().unwrap();
        for place in ["pins", "tmp"] {
            fs::set_permissions(root.join(place), Permissions::from_mode(0o000)).unwrap();
        }
    });
    assert_eq!(seen, kinds(&["unreadable-directory"; 2]));
}

#[test]
fn with_each_damage_stands_what_mends_it() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    fs::remove_dir_all(image_directory(&cabane)).unwrap();
    let seen = cabane.run(&["repo", "status"]);
    let pull = "`cabane --repo=[WORLD]/home/.local/share/cabane/repository image pull \
                app/1.0:v1@here%x86_64`";
    let says = ["damaged: 1 found", "is missing", pull].map(|text| seen.stdout.contains(text));
    assert_eq!((seen.code, says), (6, [true; 3]), "{}", seen.stdout);
}
