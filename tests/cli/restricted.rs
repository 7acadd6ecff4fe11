// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that only a group may read, seen by someone who does not belong to it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cabane_testkit::{is_root, not_run};

use crate::cabane::{APP, Cabane, Who};

/// A repository of root's with an image for the group of root, and an ordinary user.
fn stranger() -> Option<(Cabane, PathBuf)> {
    if !is_root() {
        return None;
    }
    let cabane = Cabane::new(Who::Root);
    let site = cabane.world.directory("site");
    fs::set_permissions(&site, Permissions::from_mode(0o755)).unwrap();
    let path = site.to_string_lossy().into_owned();
    cabane.run(&["repo", "create", &path]).success();
    let image = cabane.image("app", &cabane.mount_point("app"));
    fs::set_permissions(&image, Permissions::from_mode(0o640)).unwrap();
    cabane.run(&["--repo", &path, "image", "add", APP, &image]).success();
    Some((cabane.for_ordinary_user(), site))
}

#[test]
fn an_image_for_a_group_is_listed_for_everybody() {
    let Some((cabane, site)) = stranger() else {
        not_run!("needs root, to have two users");
    };
    let seen = cabane.run(&["--repo", &site.to_string_lossy(), "image", "ls", "--format={label}"]);
    assert_eq!((seen.code, seen.stdout), (0, format!("{APP}\n")));
}

#[test]
fn users_outside_the_group_learn_why_the_image_does_not_start() {
    let Some((cabane, site)) = stranger() else {
        not_run!("needs root, to have two users");
    };
    let path = site.to_string_lossy();
    let seen = cabane.run(&["--repo", &path, "run", "app", "--", "hello"]);
    let says = seen.stderr.contains("only the group root may read the image");
    assert!(seen.code != 0 && says, "{seen:?}");
}

#[test]
fn an_image_that_is_closed_is_not_damaged() {
    let Some((cabane, site)) = stranger() else {
        not_run!("needs root, to have two users");
    };
    let seen = cabane.run(&["repo", "status", "--verify", &site.to_string_lossy()]);
    let says = seen.stdout.contains("1 of them closed to you");
    assert!(seen.code == 0 && says, "{seen:?}");
}

#[test]
fn a_stranger_who_may_write_does_not_replace_an_image_he_cannot_see() {
    let Some((cabane, site)) = stranger() else {
        not_run!("needs root, to have two users");
    };
    for directory in ["images", "refs", "tmp"] {
        fs::set_permissions(site.join(directory), Permissions::from_mode(0o777)).unwrap();
    }
    let image = cabane.world.path("app.squashfs");
    fs::set_permissions(&image, Permissions::from_mode(0o644)).unwrap();
    let path = site.to_string_lossy().into_owned();
    let image = image.to_string_lossy();
    let seen = cabane.run(&["--repo", &path, "image", "add", "mine/1.0", &image]);
    let closed = fs::read_dir(site.join("images")).unwrap().next().unwrap();
    let mode = closed.unwrap().metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((seen.code, mode), (0, 0o750), "{seen:?}");
}
