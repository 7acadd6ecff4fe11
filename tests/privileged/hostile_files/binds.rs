// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Root images show directories and files that the user chooses. Those may be on a file system
//! of his that stops answering.

use crate::arena::{Arena, in_private_world};
use crate::hostile_files::{Attacker, GIVEN, System};
use crate::roots::plain;

const SYSTEMS: [System; 3] =
    [["fuse", "here", ""], ["overlay", "loose", "fuse-here"], ["overlay", "loose", "fuse-there"]];

const OPERATIONS: [&str; 6] = ["getattr", "statfs", "lookup", "opendir", "access", "getxattr"];

/// Starts in a root image with something of the user's at a place, and returns which starts
/// waited for it with the rights of root.
fn waiting(arena: &Arena, open: &str, target: &str) -> Vec<String> {
    let attacker = Attacker::new(arena);
    attacker.trust("any");
    let image = plain(arena);
    let mut waiting = Vec::new();
    for system in SYSTEMS {
        for operation in OPERATIONS {
            let options = [format!("hang={operation}"), format!("open={open}")];
            let start = arena.start().image(&image, "/".as_ref());
            let start = attacker.descriptor(start, system, &options.each_ref().map(|one| &**one));
            let ended = attacker.finish(&start.bind_at(GIVEN, target));
            if !ended.was_in_the_hands_of_its_user() {
                waiting.push(format!("{} {operation}: {ended:?}", system.join(" ")));
            }
        }
    }
    waiting
}

#[test]
fn root_does_not_wait_for_a_directory_that_is_shown_in_a_root_image() {
    in_private_world(|arena| {
        let waiting = waiting(arena, "directory", "/own");
        assert!(waiting.is_empty(), "{waiting:#?}");
    });
}

#[test]
fn root_does_not_wait_for_a_file_that_is_shown_in_a_root_image() {
    in_private_world(|arena| {
        let waiting = waiting(arena, "place", "/etc/own");
        assert!(waiting.is_empty(), "{waiting:#?}");
    });
}
