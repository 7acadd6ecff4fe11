// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A user may hold so many images and no more, also if no one can see that he holds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_mount::ImageFormat;
use cabane_testkit::compile;
use rustix::process::{Pid, Signal, kill_process};

use crate::arena::{Arena, in_private_world};
use crate::left_over::loop_devices;
use crate::start::assert_refused;

/// How many images the policy allows, and how many are tried.
const LIMIT: usize = 3;
const TRIED: usize = 8;

/// Processes that keep mounts where no one sees them.
struct Hiding<'a> {
    arena: &'a Arena,
    program: PathBuf,
    empty: PathBuf,
    log: PathBuf,
}

impl<'a> Hiding<'a> {
    fn new(arena: &'a Arena) -> Self {
        let program = arena.world.path("hiding");
        compile(include_str!("hiding.c"), &program, ["-O1"]);
        let log = arena.world.file("log", "");
        cabane_testkit::run_as_root(&format!("chmod 666 {}", log.display()));
        Self { arena, program, empty: arena.world.directory("empty"), log }
    }

    /// Starts with a copy of an image, keeps it, and returns the exit code.
    fn start(&self, image: &Path, number: usize, format: ImageFormat) -> i32 {
        let copy = self.arena.copy_of(image, &format!("copy{number}.{format}"));
        let place = self.arena.first();
        let arguments = [&self.program, place, &self.empty, &self.log];
        let arguments = arguments.map(|word: &Path| word.to_str().unwrap());
        let start = self.arena.start().image(&copy, place).command(&arguments);
        let finished = start.finish();
        assert!(matches!(finished.code, 0 | 125), "{finished:?}");
        finished.code
    }
}

impl Drop for Hiding<'_> {
    fn drop(&mut self) {
        for line in fs::read_to_string(&self.log).unwrap_or_default().lines() {
            if let Some(process) = line.parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// Starts with one image after the other, with something in between, and returns how many loop
/// devices there were at most, and the last exit code.
fn held(arena: &Arena, policy: &str, format: ImageFormat, between: impl Fn()) -> (usize, i32) {
    arena.set_policy(&format!(
        "mount-point /mnt/a\nimage-owners any\nimages-per-user {LIMIT}\n{policy}"
    ));
    let image = arena.image("hidden", format);
    let hiding = Hiding::new(arena);
    let (mut most, mut last) = (0, 0);
    for number in 0..TRIED {
        last = hiding.start(&image, number, format);
        between();
        most = most.max(loop_devices(arena).len());
    }
    drop(hiding);
    (most, last)
}

#[test]
fn images_that_are_kept_in_a_detached_mount_count() {
    in_private_world(|arena| {
        let (most, last) = held(arena, "idle-seconds 600\n", ImageFormat::Squashfs, || {});
        assert!(most <= LIMIT && last == 125, "{most} devices, {last}");
    });
}

#[test]
fn images_that_were_given_up_and_are_kept_in_a_detached_mount_count() {
    in_private_world(|arena| {
        let clean = || drop(arena.start().clean());
        let (most, last) = held(arena, "idle-seconds 600\n", ImageFormat::Squashfs, clean);
        assert!(most <= LIMIT && last == 125, "{most} devices, {last}");
    });
}

#[test]
fn images_of_erofs_that_are_kept_in_a_detached_mount_count() {
    in_private_world(|arena| {
        let clean = || drop(arena.start().clean());
        let (_, last) = held(arena, "idle-seconds 600\n", ImageFormat::Erofs, clean);
        assert_eq!(last, 125);
    });
}

#[test]
fn images_whose_idle_time_is_over_and_that_are_kept_in_a_detached_mount_count() {
    in_private_world(|arena| {
        let other = arena.image("other", ImageFormat::Erofs);
        // Someone else's start comes by when the idle time is over.
        let wait = || {
            std::thread::sleep(Duration::from_millis(2200));
            let start = arena.start().user(arena.another_user());
            start.image(&other, arena.first()).finish().success();
        };
        let (most, last) = held(arena, "idle-seconds 0\n", ImageFormat::Squashfs, wait);
        // One is the other user's.
        assert!(most <= LIMIT + 1 && last == 125, "{most} devices, {last}");
    });
}

#[test]
fn a_user_with_all_hidden_places_gets_space_by_giving_one_up() {
    in_private_world(|arena| {
        let policy = "mount-point /mnt/a\nimage-owners any\nidle-seconds 600\nimages-per-user";
        arena.set_policy(&format!("{policy} {LIMIT}\n"));
        let image = arena.any_image();
        let hiding = Hiding::new(arena);
        for number in 0..LIMIT {
            assert_eq!(hiding.start(&image, number, ImageFormat::Squashfs), 0);
        }
        let one_more = arena.start().image(&image, arena.first());
        let refused = one_more.finish();
        drop(hiding);
        // The kernel takes them away in its own time.
        std::thread::sleep(Duration::from_millis(300));
        let finished = one_more.finish();
        assert_refused(&refused, "images in use on this node");
        finished.success();
    });
}
