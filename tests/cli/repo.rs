// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo`, and several repositories.

use std::fs;

use crate::cabane::{APP, Cabane, Who, finished};

#[test]
fn a_repository_is_made_where_requested() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let path = cabane.world.path("home/images");
    let seen = cabane.run(&["repo", "create", &path.to_string_lossy()]);
    assert_eq!(seen, finished(0, "", "made the repository [WORLD]/home/images\n"));
}

#[test]
fn a_repository_that_is_there_is_not_made_again() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["repo", "create"]);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
}

#[test]
fn a_path_that_is_no_repository_says_how_to_make_one() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let path = cabane.world.path("home");
    let seen = cabane.run(&["repo", "status", &path.to_string_lossy()]);
    let says = seen.stderr.contains("cabane repo create [WORLD]/home");
    assert!(seen.code == 6 && says, "{}: {}", seen.code, seen.stderr);
}

#[test]
fn a_missing_image_is_damage_and_update_tidies_up() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    for image in fs::read_dir(images).unwrap() {
        fs::remove_dir_all(image.unwrap().path()).unwrap();
    }
    let damaged = cabane.run(&["repo", "status"]).code;
    cabane.run(&["repo", "update"]).success();
    assert_eq!((damaged, cabane.run(&["repo", "status"]).code), (6, 0));
}

#[test]
fn changed_content_is_found_by_verify() {
    let cabane = Cabane::with_app(Who::Root);
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let image = fs::read_dir(images).unwrap().next().unwrap().unwrap().path().join("image");
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&image, bytes).unwrap();
    let codes =
        [cabane.run(&["repo", "status"]).code, cabane.run(&["repo", "status", "--verify"]).code];
    assert_eq!(codes, [0, 6]);
}

#[test]
fn the_repository_with_the_greater_priority_wins() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let site = cabane.world.directory("site");
    let site = site.to_string_lossy();
    let other = cabane.image("other", &cabane.mount_point("other"));
    cabane.run(&["--repo", &site, "repo", "create", &site]).success();
    cabane.run(&["--repo", &site, "image", "add", APP, &other]).success();
    let ask = |priority: i32| {
        let text = format!(
            "[[repositories]]\nname = \"site\"\npath = \"{site}\"\npriority = {priority}\n"
        );
        cabane.world.file("site.toml", &text);
        cabane.run(&["run", "app", "--", "hello"]).stdout
    };
    assert_eq!([ask(10), ask(1)], ["hello from other\n", "hello from app\n"]);
}

#[test]
fn repositories_can_be_named_on_the_command_line() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let empty = cabane.world.directory("empty");
    cabane.run(&["repo", "create", &empty.to_string_lossy()]).success();
    let list = format!("team={},default", empty.display());
    let seen = cabane.run(&["--repo", &list, "image", "ls", "--format={repository}"]);
    assert_eq!(seen, finished(0, "default\n", ""));
}

#[test]
fn an_unknown_repository_name_lists_the_known_ones() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["--repo", "sight", "image", "ls"]);
    assert!(seen.code == 2 && seen.stderr.contains("the known names are `default`"), "{seen:?}");
}
