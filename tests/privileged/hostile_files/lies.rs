// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a server of the user says about a file is worth nothing, whatever it says.

use crate::arena::in_private_world;
use crate::hostile_files::{Attacker, System};

/// What a server says about the file.
const LIES: [&[&str]; 6] = [
    &["owner=0", "mode=444"],
    &["owner=0", "mode=666"],
    &["grows=4096"],
    &["grows=-512"],
    &["flips=1"],
    &["later=/usr/bin/env"],
];

/// The file systems of the user that look least like FUSE.
const SYSTEMS: [System; 3] =
    [["fuse", "here", ""], ["overlay", "loose", "fuse-here"], ["overlay", "loose", "fuse-there"]];

fn believed(attacker: &Attacker<'_>, owners: &str) -> Vec<String> {
    attacker.trust(owners);
    let mut believed = Vec::new();
    for system in SYSTEMS {
        for lie in LIES {
            let ended = attacker.finish(&attacker.image(system, lie));
            if !ended.is_refused() {
                believed.push(format!("{} {lie:?}: {ended:?}", system.join(" ")));
            }
        }
    }
    believed
}

#[test]
fn a_served_file_is_refused_whatever_its_server_says_where_every_owner_is_trusted() {
    in_private_world(|arena| {
        let believed = believed(&Attacker::new(arena), "any");
        assert!(believed.is_empty(), "{believed:#?}");
    });
}

#[test]
fn a_served_file_is_refused_whatever_its_server_says_where_only_root_is_trusted() {
    in_private_world(|arena| {
        let believed = believed(&Attacker::new(arena), "root");
        assert!(believed.is_empty(), "{believed:#?}");
    });
}
