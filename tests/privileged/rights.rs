// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the helper does with rights of root is what the design says, and nothing else.
//!
//! The table of `docs/design/0005-the-helper.md` is the measure: each system call that is traced
//! while the effective user is root must be in it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;

use cabane_mount::ImageFormat;

use crate::arena::{Arena, in_private_world};
use crate::limits::Up;
use crate::start::Start;
use crate::traced::traced;

const DESIGN: &str = include_str!("../../docs/design/0005-the-helper.md");
const SECTION: &str = "### What is done with rights";

/// The names in the first column of the table.
fn allowed() -> BTreeSet<&'static str> {
    let section = DESIGN.split(SECTION).nth(1).expect("the section");
    let section = section.split("\n### ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The system calls of a helper while its effective user is root, until its command starts.
fn with_rights(trace: &str, helper: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_helper, mut has_rights) = (false, false);
    for line in trace.lines() {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        let Some((name, rest)) = call.split_once('(') else {
            continue;
        };
        if name == "execve" && rest.starts_with(&format!("\"{helper}\"")) {
            (is_helper, has_rights) = (true, true);
            continue;
        }
        if !is_helper || name == "exit_group" || name == "execve" {
            is_helper = is_helper && name != "execve";
            continue;
        }
        if has_rights {
            found.insert(name.to_owned());
        }
        if name == "setresuid" && rest.ends_with("= 0") {
            let users: Vec<&str> = rest.split(')').next().unwrap_or_default().split(", ").collect();
            match users.get(1) {
                Some(&"0") => has_rights = true,
                Some(&"-1") | None => {}
                Some(_) => has_rights = false,
            }
        }
    }
    found
}

fn trace(arena: &Arena, start: &Start<'_>) -> BTreeSet<String> {
    let log = arena.world.path("rights");
    traced(start, arena.user(), &[], &log).finish();
    let text = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    with_rights(&text, arena.helper.to_str().unwrap())
}

#[test]
fn what_is_done_with_rights_is_in_the_design() {
    in_private_world(|arena| {
        let squashfs = arena.any_image();
        let erofs = arena.image("erofs", ImageFormat::Erofs);
        let start = |image| arena.start().image(image, arena.first());
        let mut found = BTreeSet::new();
        // The first makes the cache, the second mounts anew, the third shares.
        arena.keep_warm();
        found.extend(trace(arena, &start(&squashfs)));
        found.extend(trace(arena, &start(&erofs)));
        found.extend(trace(arena, &start(&squashfs)));
        let refused = arena.start().image(&squashfs, std::path::Path::new("/etc"));
        found.extend(trace(arena, &refused));
        // Another user's image is in use, and looked at when the idle time is over.
        let up = Up::with(&start(&squashfs).user(arena.another_user()), "echo up");
        let policy = fs::read_to_string(cabane_mount::Policy::PATH).unwrap();
        arena.set_policy(&policy.replace("idle-seconds 600", "idle-seconds 0"));
        std::thread::sleep(std::time::Duration::from_millis(2200));
        found.extend(trace(arena, &start(&erofs)));
        up.end();
        // With a content that is checked, by the list and by a signature, where the kernel can do that.
        if cabane_mount::verity::is_in_kernel() {
            found.extend(crate::verity::starts(arena).iter().flat_map(|start| trace(arena, start)));
        }
        // Through FUSE, with no one to serve it.
        let (socket, _) = UnixStream::pair().unwrap();
        found.extend(trace(arena, &arena.start().served(socket.into(), arena.first())));
        // An image that root has unpacked.
        crate::unpacked::furnish(arena);
        found.extend(trace(arena, &crate::unpacked::requested(arena)));
        arena.set_policy(&policy.replace("idle-seconds 600", "idle-seconds 0"));
        // Into the namespace of a process, and with a root image.
        let inside = Up::with(&start(&squashfs), "echo up");
        let entering = arena.start().image(&erofs, arena.second());
        let entering = entering.entering(inside.process());
        found.extend(trace(arena, &entering));
        inside.end();
        arena.set_policy(&format!("{policy}root-images yes\nroot-bind /mnt/b\n"));
        let root = crate::roots::plain(arena);
        let root = arena.start().image(&root, std::path::Path::new("/"));
        let root = root.bind(&arena.world.path(""), "/mnt/c", true).lines("/etc/passwd", "a:b\n");
        found.extend(trace(arena, &root));
        arena.set_policy(&policy);
        let allowed = allowed();
        let unknown: Vec<_> =
            found.iter().filter(|name| !allowed.contains(name.as_str())).collect();
        assert!(found.len() > 30, "{found:?}");
        assert_eq!(unknown, Vec::<&String>::new());
        // A table that allows what is never done is no measure.
        let idle: Vec<_> = allowed.iter().filter(|name| !found.contains(**name)).collect();
        cabane_testkit::say(&format!("note: in the design and not seen: {idle:?}"));
    });
}
