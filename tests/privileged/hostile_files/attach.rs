// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A namespace that a user has furnished, in part, is entered: a mount point in it may be on a
//! file system of his that stops answering.

use std::fs;

use cabane_testkit::not_run;

use crate::arena::{Arena, in_private_world};
use crate::hostile_files::{Attacker, Ended, GIVEN, System};
use crate::limits::Up;
use crate::roots::plain;

/// Shows a directory of the user's at a place of a root image, and then mounts an image at
/// `/mnt/a` in that process's namespace. There is no such place where the kernel does not clone
/// what is attached nowhere, as before Linux 6.15.
fn entered(arena: &Arena, system: System, target: &str, hang: &str) -> Option<Ended> {
    let attacker = Attacker::new(arena);
    attacker.trust("any");
    let image = arena.any_image();
    let begin = arena.world.path("begin");
    let options =
        ["open=directory".to_owned(), format!("hang={hang}"), format!("from={}", begin.display())];
    let first = arena.start().image(&plain(arena), "/".as_ref());
    let first = attacker.descriptor(first, system, &options.each_ref().map(|one| &**one));
    attacker.forget();
    let first = first.bind_at(GIVEN, target);
    let mut up = Up::begin(&first, "echo up");
    if let Err(output) = up.listen() {
        let is_not_cloned =
            output.contains("failed to bind") && output.contains("Invalid argument");
        assert!(is_not_cloned, "{output}");
        attacker.kill_server();
        attacker.unmount();
        return None;
    }
    fs::write(begin, "").unwrap();
    let second = arena.start().image(&image, arena.first());
    let ended = attacker.watch(&second.entering(up.process()));
    attacker.kill_server();
    up.end();
    attacker.unmount();
    Some(ended)
}

/// Asserts that the second start did not wait with the rights of root.
fn assert_no_other_user_waits(arena: &Arena, system: System, target: &str, hang: &str) {
    match entered(arena, system, target, hang) {
        Some(ended) => assert!(ended.was_in_the_hands_of_its_user(), "{ended:#?}"),
        None if system[1] == "loose" => {
            not_run!("this kernel clones nothing that is attached nowhere");
        }
        None => panic!("what is attached cannot be bound"),
    }
}

#[test]
fn root_does_not_wait_for_a_mount_point_that_the_user_serves() {
    in_private_world(|arena| {
        assert_no_other_user_waits(arena, ["fuse", "here", ""], "/mnt/a", "getattr");
    });
}

#[test]
fn root_does_not_wait_for_a_mount_point_on_an_overlay_of_the_user() {
    in_private_world(|arena| {
        assert_no_other_user_waits(arena, ["overlay", "loose", "fuse-there"], "/mnt/a", "getattr");
    });
}

#[test]
fn root_does_not_look_up_a_mount_point_in_an_overlay_of_the_user() {
    in_private_world(|arena| {
        assert_no_other_user_waits(arena, ["overlay", "loose", "fuse-here"], "/mnt", "lookup");
    });
}

#[test]
fn root_does_not_look_at_the_file_system_of_a_mount_point_of_the_user() {
    in_private_world(|arena| {
        assert_no_other_user_waits(arena, ["overlay", "loose", "fuse-here"], "/mnt/a", "statfs");
    });
}
