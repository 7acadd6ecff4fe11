// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A file system that stops answering stops no one but the user who made it: no process waits
//! for it with the rights of root.

use crate::arena::{Arena, in_private_world};
use crate::hostile_files::{Attacker, System};

/// What the server leaves without an answer. The file is open by then.
const OPERATIONS: [&str; 8] =
    ["getattr", "statfs", "read", "open", "lookup", "getxattr", "flush", "release"];

/// Starts with a file on a system that stops answering, and returns which starts waited with
/// the rights of root.
fn waiting(attacker: &Attacker<'_>, system: System) -> Vec<String> {
    let mut waiting = Vec::new();
    for owners in ["any", "root"] {
        attacker.trust(owners);
        for operation in OPERATIONS {
            let hang = format!("hang={operation}");
            let squashfs = attacker.image(system, &[&hang]);
            let erofs = attacker.erofs(system, &[&hang]);
            // The kernel reads the two in different ways; what comes before is the same.
            let is_of_kernel = ["read", "open"].contains(&operation);
            let starts = [Some(squashfs), is_of_kernel.then_some(erofs)];
            for start in starts.into_iter().flatten() {
                let ended = attacker.finish(&start);
                if !ended.was_in_the_hands_of_its_user() {
                    waiting.push(format!("{owners} {operation}: {ended:?}"));
                }
            }
        }
    }
    waiting
}

/// Asserts that no start waited with the rights of root.
fn assert_no_other_user_waits(arena: &Arena, system: System) {
    let waiting = waiting(&Attacker::new(arena), system);
    assert!(waiting.is_empty(), "{waiting:#?}");
}

#[test]
fn root_does_not_wait_for_a_fuse_file_system_on_the_host() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["fuse", "here", ""]));
}

#[test]
fn root_does_not_wait_for_a_fuse_file_system_of_a_user_namespace() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["fuse", "there", ""]));
}

#[test]
fn root_does_not_wait_for_a_fuse_file_system_that_is_attached_nowhere() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["fuse", "loose", ""]));
}

#[test]
fn root_does_not_wait_for_what_is_below_an_overlay_that_is_attached_nowhere() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["overlay", "loose", "fuse-there"]));
}

#[test]
fn root_does_not_wait_for_a_fuse_file_system_of_the_host_below_such_an_overlay() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["overlay", "loose", "fuse-here"]));
}

#[test]
fn root_does_not_wait_for_what_is_below_an_overlay_of_a_user_namespace() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["overlay", "there", "fuse-there"]));
}

#[test]
fn root_does_not_wait_for_a_fuse_file_system_of_the_host_below_an_overlay_of_a_user_namespace() {
    in_private_world(|arena| assert_no_other_user_waits(arena, ["overlay", "there", "fuse-here"]));
}
