// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane status`.

use crate::cabane::{APP, Cabane, Who, everybody, finished};

#[test]
fn outside_there_is_nothing_to_show() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    assert_eq!(cabane.run(&["status"]), finished(0, "", "no image is loaded\n"));
}

#[test]
fn outside_a_script_can_request_an_error() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["status", "--error-if-unset"]);
    assert_eq!(seen, finished(8, "", "error: no image is loaded\n"));
}

#[test]
fn inside_it_shows_label_place_views_and_digest() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let digest = cabane.run(&["image", "inspect", "app", "--format={digest}"]).success().stdout;
        let digest = digest.trim();
        cabane.run(&["run", "app", "--", cabane.program(), "status", "--json"]).success();
        let seen = cabane.run(&["run", "app", "--", cabane.program(), "status"]);
        let by = match who {
            Who::Root => "by the kernel",
            Who::OrdinaryUser => "through FUSE, in a user namespace",
        };
        let expected = format!(
            "{APP}\n  mount point [WORLD]/mnt/app\n  mounted     {by}\n  views       default\n  digest      {digest}\n  \
             file        [WORLD]/home/.local/share/cabane/repository/images/{digest}/image\n  \
             repository  default\n"
        );
        assert_eq!(seen, finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn variables_that_travelled_outside_are_seen_through() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let value = cabane
        .run(&["run", "app", "--", "sh", "-c", "echo \"$CABANE_LOADED\""])
        .success()
        .stdout
        .replace("[WORLD]", &cabane.world.path("").to_string_lossy());
    let mut command = cabane.command(&["status"]);
    command.env("CABANE_LOADED", value.trim());
    let seen = cabane.finish(&mut command).success();
    assert!(seen.stdout.contains("mounted     not here"), "{}", seen.stdout);
}

#[test]
fn scripts_get_the_lists_they_know() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let script = "echo $UENV_VIEW; echo $UENV_MOUNT_LIST | sed 's/images.*image:/…:/'";
        let seen = cabane.run(&["run", "app", "--", "sh", "-c", script]);
        let expected = "[WORLD]/mnt/app:app:default\n\
            [WORLD]/home/.local/share/cabane/repository/…:[WORLD]/mnt/app\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}
