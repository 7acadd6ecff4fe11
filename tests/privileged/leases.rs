// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The owner of a file can make everyone who opens it wait, by a lease (`fcntl_locking(2)`):
//! for as long as `fs.lease-break-time` says, 45 seconds.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::Finished;

use crate::arena::{Arena, in_private_world};
use crate::start::{REQUEST, Start};

/// How long a start may take, on a busy machine.
const SOON: Duration = Duration::from_secs(8);

/// Opens a file, takes a lease for writing, and starts a program with the descriptor. The
/// numbers are those of `F_SETLEASE` and `F_WRLCK`.
const WITH_LEASE: &str = "BEGIN { $^F = 5000 } use POSIX;
    open(my $file, '<', shift) or die; dup2(fileno($file), 960) or die; close($file);
    open($file, '<&=', 960) or die; $SIG{IO} = 'IGNORE';
    fcntl($file, 1024, 1) or die 'no lease'; exec @ARGV or die;";
const NUMBER: i32 = REQUEST + 10;

/// An image of the attacker's.
fn own_image(arena: &Arena, format: ImageFormat) -> PathBuf {
    let image = arena.image("own", format);
    chown(&image, Some(arena.user()), None).unwrap();
    image
}

fn leased<'a>(start: Start<'a>, image: &Path) -> Start<'a> {
    start.through(&["perl", "-e", WITH_LEASE, &image.display().to_string()])
}

/// How it ended, and after what time.
fn timed(start: &Start<'_>) -> (Finished, Duration) {
    let begin = Instant::now();
    (start.finish(), begin.elapsed())
}

#[test]
fn a_lease_on_the_image_holds_up_no_process_of_root() {
    in_private_world(|arena| {
        for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
            let image = own_image(arena, format);
            let start = arena.start().image_at(NUMBER, &image, arena.first());
            let (finished, time) = timed(&leased(start.declared(format), &image));
            let is_clean = finished.code == 0
                || finished.code == 125 && finished.stderr.starts_with("error: ");
            assert!(is_clean && time < SOON, "{format}: {time:?} {finished:?}");
        }
    });
}

#[test]
fn a_lease_on_the_image_holds_up_no_other_user() {
    in_private_world(|arena| {
        let image = own_image(arena, ImageFormat::Squashfs);
        let start = arena.start().image_at(NUMBER, &image, arena.first());
        let mut first = leased(start, &image).process().spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let other = arena.copy_of(&image, "other.squashfs");
        let start = arena.start().user(arena.another_user());
        let (finished, time) = timed(&start.image(&other, arena.first()));
        first.kill().unwrap();
        first.wait().unwrap();
        finished.success();
        assert!(time < Duration::from_secs(2), "{time:?}");
    });
}
