// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The system refuses what the helper asks for, as a filter for system calls does (`seccomp`) that
//! a site or a container has put around everything. Wherever that happens there is an error at
//! most, and never a command with rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::Finished;

use crate::arena::{Arena, in_private_world, root};
use crate::start::Start;
use crate::traced::{Call, calls, traced};

/// How long a start may take that fails.
const SOON: Duration = Duration::from_secs(8);

/// What changes rights, namespaces and mounts.
const CALLS: [&str; 24] = [
    "capset",
    "chroot",
    "fchdir",
    "fchown",
    "flock",
    "fsconfig",
    "fsmount",
    "fsopen",
    "ioctl",
    "mkdirat",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "openat2",
    "pivot_root",
    "prctl",
    "rt_sigprocmask",
    "setfsuid",
    "setns",
    "setresgid",
    "setresuid",
    "umount2",
    "unshare",
];

/// What the command has: the user's number four times, the group's, no capability, and the
/// promise that it can gain none.
fn harmless(user: u32) -> String {
    let none = "0".repeat(16);
    format!(
        "Uid: {user} {user} {user} {user} Gid: {user} {user} {user} {user} NoNewPrivs: 1 \
         CapPrm: {none} CapEff: {none} "
    )
}

/// Waits for the end, and brings it about if it does not come.
fn finish_or_kill(start: &Start<'_>, log: &Path) -> Finished {
    let child = start.spawn();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output().unwrap());
        let begin = Instant::now();
        while !waiting.is_finished() {
            if begin.elapsed() > SOON {
                let text = fs::read_to_string(log).unwrap();
                let process = text.split(' ').next().unwrap();
                root(&format!("kill -KILL {process} || true"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = waiting.join().unwrap();
        Finished {
            code: output.status.code().unwrap_or(128),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    })
}

fn assert_failures_give_errors(arena: &Arena, image: &Path, error: &str) {
    let script = "for key in Uid Gid NoNewPrivs CapPrm CapEff; do
        grep \"^$key:\" /proc/self/status | tr -s '\\t\\n' ' '; done";
    let start = arena.start().image(image, arena.first()).script(script);
    let all = calls(arena, &start);
    let is_kept = |call: &&Call| {
        CALLS.contains(&call.name.as_str()) && (call.name != "prctl" || call.is_among(&all, 3))
    };
    let calls: Vec<&Call> = all.iter().filter(is_kept).collect();
    let log: PathBuf = arena.world.path("failed");
    let (mut failures, mut wrong) = (0, Vec::new());
    for call in calls {
        let (only, inject) =
            (format!("trace={}", call.name), call.inject(&format!("error={error}")));
        let failing = traced(&start, arena.user(), &["-e", &only, "-e", &inject], &log);
        let finished = finish_or_kill(&failing, &log);
        let is_harmless = finished.code == 0 && finished.stdout == harmless(arena.user());
        let is_refused = matches!(finished.code, 125 | 126) && finished.stdout.is_empty();
        failures += usize::from(is_refused);
        if !is_harmless && !is_refused {
            wrong.push(format!("{call:?}: {finished:?}"));
        }
        arena.start().clean();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(failures > 20, "{failures}");
}

#[test]
fn any_call_that_is_not_permitted_gives_an_error_or_none_and_no_rights() {
    in_private_world(|arena| assert_failures_give_errors(arena, &arena.any_image(), "EPERM"));
}

#[test]
fn any_call_that_the_kernel_does_not_know_gives_an_error_or_none_and_no_rights() {
    in_private_world(|arena| {
        let image = arena.image("erofs", ImageFormat::Erofs);
        assert_failures_give_errors(arena, &image, "ENOSYS");
    });
}
