// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A fresh mount is stopped and killed at each of its system calls.

use std::path::Path;
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{fewer, say};

use crate::arena::{Arena, in_private_world};
use crate::left_over;
use crate::start::{Start, assert_refused};
use crate::traced::{Call, Stopped, calls, traced};

/// How long others may be held up. A start takes some milliseconds.
const SHORT: Duration = Duration::from_secs(2);

/// Calls that change nothing which others could see: what comes before or after them is tried.
const QUIET: [&str; 21] = [
    "access",
    "brk",
    "close",
    "fcntl",
    "fstat",
    "fstatfs",
    "getdents64",
    "getegid",
    "geteuid",
    "getrandom",
    "getresgid",
    "getresuid",
    "lseek",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "pread64",
    "read",
    "rt_sigaction",
    "statx",
];

/// The system calls of a fresh mount. Of those that come by the dozen, for each capability, the
/// first and last few.
fn calls_of_fresh_mount(arena: &Arena, start: &Start<'_>) -> Vec<Call> {
    clean(arena);
    let all = calls(arena, start);
    let is_kept = |call: &Call| call.name != "prctl" || call.is_among(&all, 3);
    all.iter().filter(|call| is_kept(call)).cloned().collect()
}

/// The same without those that change nothing.
fn loud_calls(arena: &Arena, start: &Start<'_>) -> Vec<Call> {
    let mut calls = calls_of_fresh_mount(arena, start);
    calls.retain(|call| !QUIET.contains(&call.name.as_str()));
    calls
}

fn clean(arena: &Arena) {
    for user in [arena.user(), arena.another_user()] {
        arena.start().user(user).clean();
    }
}

/// How long it takes another user to start with an image.
fn time_of_another(arena: &Arena, image: &Path) -> Duration {
    let start = arena.start().user(arena.another_user());
    let begin = Instant::now();
    start.image(image, arena.first()).finish().success();
    begin.elapsed()
}

/// Stops fresh mounts of an image, and measures starts of another user meanwhile.
fn assert_others_go_on(arena: &Arena, image: &Path, other: &Path) {
    let start = arena.start().image(image, arena.first());
    let alone = time_of_another(arena, other);
    let calls = loud_calls(arena, &start);
    let (mut stops, mut longest, mut held_up) = (0, Duration::ZERO, Vec::new());
    for call in &calls {
        clean(arena);
        let Some(stopped) = Stopped::at(arena, &start, call) else {
            continue;
        };
        let time = time_of_another(arena, other);
        stopped.go_on();
        (stops, longest) = (stops + 1, longest.max(time));
        if time > SHORT {
            held_up.push(format!("{time:?} at {call:?}"));
        }
        // Enough to see where; each costs seconds.
        if held_up.len() > 2 {
            break;
        }
    }
    let ratio = longest.as_secs_f64() / alone.as_secs_f64();
    say(&format!(
        "note: stopped at {stops} calls, a start makes others take {ratio:.0} times as long"
    ));
    assert!(held_up.is_empty(), "{held_up:#?}");
    assert!(stops > calls.len() / 2, "{stops} of {}", calls.len());
}

#[test]
fn a_fresh_mount_that_is_stopped_anywhere_does_not_hold_up_others_with_the_same_image() {
    in_private_world(|arena| {
        let image = arena.any_image();
        assert_others_go_on(arena, &image, &image);
    });
}

#[test]
fn a_fresh_mount_that_is_stopped_anywhere_does_not_hold_up_others_with_another_image() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let other = arena.image("other", ImageFormat::Squashfs);
        assert_others_go_on(arena, &image, &other);
    });
}

/// Lets another user's image become unused, so that the next start looks whether it is.
fn let_idle_time_pass(arena: &Arena, image: &Path) {
    time_of_another(arena, image);
    std::thread::sleep(Duration::from_millis(2200));
}

#[test]
fn a_start_that_is_stopped_while_it_gives_up_an_image_does_not_hold_up_others_with_it() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let own = arena.image("own", ImageFormat::Squashfs);
        let start = arena.start().image(&own, arena.first());
        let policy = "mount-point /mnt/a\nimage-owners any\nidle-seconds 0\n";
        arena.set_policy(policy);
        clean(arena);
        let_idle_time_pass(arena, &image);
        let calls = calls(arena, &start);
        let unmounts = calls.iter().position(|call| call.name == "umount2");
        let around = calls.iter().skip(unmounts.unwrap().saturating_sub(4));
        let around = around.filter(|call| !QUIET.contains(&call.name.as_str()));
        let (mut stops, mut held_up) = (0, Vec::new());
        for call in around.take(fewer(24)) {
            clean(arena);
            let_idle_time_pass(arena, &image);
            let Some(stopped) = Stopped::at(arena, &start, call) else {
                continue;
            };
            let time = time_of_another(arena, &image);
            stopped.go_on();
            stops += 1;
            if time > SHORT {
                held_up.push(format!("{time:?} at {call:?}"));
            }
        }
        assert!(held_up.is_empty(), "{held_up:#?}");
        assert!(stops >= fewer(24) / 2, "{stops}");
    });
}

/// Who leaves a directory last unmounts its file system, and may have to wait for it.
#[test]
fn the_working_directory_of_the_caller_is_left_before_the_rights_are_taken_back() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let calls = calls(arena, &start);
        let first = |name: &str| calls.iter().position(|call| call.name == name);
        // Lowered once, then raised.
        let mut changes = calls.iter().enumerate();
        let mut changes = changes.by_ref().filter(|(_, call)| call.name == "setresuid");
        let raised = changes.nth(1).map(|(index, _)| index);
        assert!(first("chdir").unwrap() < raised.unwrap(), "{calls:#?}");
        assert!(first("chdir") < first("setns"), "{calls:#?}");
    });
}

#[test]
fn images_that_a_stopped_start_has_out_of_the_cache_count_for_its_user() {
    in_private_world(|arena| {
        let policy = "mount-point /mnt/a\nimage-owners any\nidle-seconds 0\nimages-per-user 4\n";
        arena.set_policy(policy);
        let own = arena.image("own", ImageFormat::Squashfs);
        let name = |number| format!("of-another-{number}");
        let others = [0, 1, 2, 3].map(|number| arena.image(&name(number), ImageFormat::Squashfs));
        let all_are_idle = || {
            clean(arena);
            for image in &others {
                time_of_another(arena, image);
            }
            std::thread::sleep(Duration::from_millis(2200));
        };
        let start = arena.start().image(&own, arena.first());
        all_are_idle();
        let calls = calls(arena, &start);
        let unmounts = calls.iter().filter(|call| call.name == "umount2");
        // The later, the more are out. A start looks only for so long.
        let mut stops = unmounts.rev().filter_map(|call| {
            all_are_idle();
            Stopped::at(arena, &start, call)
        });
        let stopped = stops.next().unwrap();
        let new = arena.image("new", ImageFormat::Squashfs);
        for image in others.iter().chain([&new]) {
            let time = time_of_another(arena, image);
            assert!(time < SHORT, "{time:?}");
        }
        // Whose start was stopped has the one that is mounted and those that are out.
        let one_more = arena.image("one-more", ImageFormat::Squashfs);
        let finished = arena.start().image(&one_more, arena.first()).finish();
        assert_refused(&finished, "another of your starts");
        stopped.go_on();
        start.finish().success();
    });
}

/// Kills fresh mounts at each call, and looks at what is left.
fn assert_kills_leave_nothing(arena: &Arena, image: &Path) {
    let start = arena.start().image(image, arena.first());
    let log = arena.world.path("killed");
    let (mut kills, mut held_up) = (0, Vec::new());
    for call in loud_calls(arena, &start) {
        let (only, inject) = (format!("trace={}", call.name), call.inject("signal=KILL"));
        let killed = traced(&start, arena.user(), &["-e", &only, "-e", &inject], &log);
        let finished = killed.finish();
        kills += usize::from(finished.code > 128);
        let time = time_of_another(arena, image);
        if time > SHORT {
            held_up.push(format!("{time:?} at {call:?}"));
        }
        left_over::assert_none(arena);
    }
    assert!(held_up.is_empty(), "{held_up:#?}");
    assert!(kills > 20, "{kills}");
}

#[test]
fn a_kill_at_any_call_of_a_fresh_mount_of_squashfs_leaves_nothing() {
    in_private_world(|arena| assert_kills_leave_nothing(arena, &arena.any_image()));
}

#[test]
fn a_kill_at_any_call_of_a_fresh_mount_of_erofs_leaves_nothing() {
    in_private_world(|arena| {
        assert_kills_leave_nothing(arena, &arena.image("erofs", ImageFormat::Erofs));
    });
}
