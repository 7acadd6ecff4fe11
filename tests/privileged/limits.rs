// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One superblock for an image, however many use it, and a limit for each user.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{fewer, not_run, time_limit};
use rustix::fs::{AtFlags, Mode, mkdirat, statat, symlinkat};
use rustix::io::Errno;

use crate::arena::{Arena, in_arena, in_private_world, root};
use crate::left_over::{USERS, loop_devices};
use crate::start::{Start, assert_refused};
use crate::traced::{Call, Stopped};

/// A command that is up and stays so until it is ended.
pub(crate) struct Up {
    child: Child,
    /// The first line that it wrote.
    pub(crate) printed: String,
}

impl Up {
    /// Starts a command that says what a script says, and stays.
    pub(crate) fn with(start: &Start<'_>, script: &str) -> Self {
        let mut up = Self::begin(start, script);
        up.wait();
        up
    }

    /// Starts it without waiting for it to be up.
    pub(crate) fn begin(start: &Start<'_>, script: &str) -> Self {
        Self::of(start.clone().script(&format!("{script}; read wait")).process())
    }

    /// Starts it without the helper.
    pub(crate) fn direct(start: &Start<'_>, script: &str) -> Self {
        let start = start.clone().script(&format!("{script}; read wait"));
        let mut up = Self::of(start.process_directly());
        up.wait();
        up
    }

    fn of(mut command: Command) -> Self {
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        Self { child: command.spawn().unwrap(), printed: String::new() }
    }

    pub(crate) fn wait(&mut self) {
        if let Err(complaint) = self.listen() {
            panic!("the command is not up: {complaint}");
        }
    }

    /// Waits until it is up, or returns why it is not.
    pub(crate) fn listen(&mut self) -> Result<(), String> {
        let mut reader = BufReader::new(self.child.stdout.as_mut().unwrap());
        reader.read_line(&mut self.printed).unwrap();
        if self.printed.is_empty() {
            let mut complaint = String::new();
            let stderr = self.child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut complaint).unwrap();
            return Err(complaint);
        }
        Ok(())
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Says a line to it, and returns what it writes from then on.
    pub(crate) fn answer(mut self, line: &str) -> String {
        let mut stdin = self.child.stdin.take().unwrap();
        writeln!(stdin, "{line}").unwrap();
        drop(stdin);
        let mut answer = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut answer).unwrap();
        self.child.wait().unwrap();
        answer
    }

    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn device(arena: &Arena) -> String {
    format!("stat -c %d {}/name", arena.first().display())
}

#[test]
fn one_user_may_hold_so_many_images_and_no_more() {
    in_arena(|arena| {
        let limit = arena.few_images();
        let image = arena.any_image();
        let copy = |number| arena.copy_of(&image, &format!("copy{number}.squashfs"));
        let images: Vec<PathBuf> = (0..=limit).map(copy).collect();
        let start = |image: &Path| arena.start().image(image, arena.first());
        let mut up: Vec<Up> =
            images[..limit].iter().map(|image| Up::with(&start(image), "echo up")).collect();
        let refused = start(&images[limit]).finish();
        assert_refused(&refused, &format!("you have {limit} images in use"));
        // Another user has places of his own.
        if arena.is_private() {
            start(&images[limit]).user(USERS[1]).finish().success();
            assert_eq!(loop_devices(arena).len(), limit + 1);
        }
        up.pop().unwrap().end();
        start(&arena.copy_of(&image, "fifth.squashfs")).finish().success();
    });
}

#[test]
fn an_image_that_another_user_has_out_of_the_cache_counts_while_it_is_in_use() {
    in_private_world(|arena| {
        let policy = "mount-point /mnt/a\nimage-owners any\nidle-seconds 0\nimages-per-user 2\n";
        arena.set_policy(policy);
        let image = arena.any_image();
        let copies = [0, 1, 2].map(|number| arena.copy_of(&image, &format!("copy{number}")));
        let another = arena.another_user();
        let start = |image: &Path| arena.start().image(image, arena.first()).user(another);
        let _up = [0, 1].map(|number| Up::with(&start(&copies[number]), "echo up"));
        std::thread::sleep(Duration::from_millis(2200));
        let own = arena.image("own", ImageFormat::Squashfs);
        let sweeping = arena.start().image(&own, arena.first());
        let stopped = Stopped::at(arena, &sweeping, &Call::first("umount2")).unwrap();
        assert_refused(&start(&copies[2]).finish(), "you have 2 images in use");
        stopped.go_on();
        assert_refused(&start(&copies[2]).finish(), "you have 2 images in use");
    });
}

#[test]
fn what_a_killed_start_left_of_a_removed_entry_goes_with_the_next_removal() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        start.finish().success();
        let (_, cache) = arena.cache().unwrap();
        for name in [".gone-1", ".gone-1/image", ".gone-2"] {
            mkdirat(&cache, name, Mode::RWXU).unwrap();
        }
        symlinkat("7 1", &cache, ".gone-2/device").unwrap();
        symlinkat("61234", &cache, ".gone-2/out").unwrap();
        arena.start().clean().success();
        for name in [".gone-1", ".gone-2"] {
            assert_eq!(statat(&cache, name, AtFlags::empty()).err(), Some(Errno::NOENT));
        }
    });
}

#[test]
fn simultaneous_starts_share_one_superblock() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let mut up: Vec<Up> = (0..20).map(|_| Up::begin(&start, &device(arena))).collect();
        up.iter_mut().for_each(Up::wait);
        let devices: BTreeSet<&str> = up.iter().map(|up| up.printed.as_str()).collect();
        let found = (devices.len(), loop_devices(arena).len());
        up.into_iter().for_each(Up::end);
        assert_eq!(found, (1, 1));
    });
}

#[test]
fn two_users_share_an_image_and_the_second_goes_on_alone() {
    in_arena(|arena| {
        for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
            let image = arena.image("shared", format);
            let start = arena.start().image(&image, arena.first());
            let first = Up::with(&start, &device(arena));
            let second = start.clone().user(arena.another_user());
            let place = arena.first().display();
            let script = format!("{}; read wait; cat {place}/name >&2", device(arena));
            let mut command = second.script(&script).process();
            command.stdin(std::process::Stdio::piped());
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            let mut second = command.spawn().unwrap();
            let mut printed = String::new();
            let mut reader = BufReader::new(second.stdout.take().unwrap());
            reader.read_line(&mut printed).unwrap();
            assert_eq!(printed, first.printed);
            first.end();
            arena.start().clean();
            drop(second.stdin.take());
            let output = second.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stderr), "shared");
        }
    });
}

#[test]
fn surplus_loop_devices_are_removed() {
    in_arena(|arena| {
        let image = arena.any_image();
        let images = (0..10).map(|number| arena.copy_of(&image, &format!("copy{number}.squashfs")));
        let up: Vec<Up> = images
            .map(|image| Up::with(&arena.start().image(&image, arena.first()), "echo up"))
            .collect();
        let used = loop_devices(arena);
        up.into_iter().for_each(Up::end);
        arena.start().clean().success();
        let surplus = used.iter().filter(|number| **number >= 8);
        // Another test may take a number as soon as it is free.
        let is_idle = |number: &&u32| {
            let directory = PathBuf::from(format!("/sys/block/loop{number}"));
            directory.exists() && !directory.join("loop").exists()
        };
        let begin = Instant::now();
        loop {
            let left: Vec<&u32> = surplus.clone().filter(is_idle).collect();
            if left.is_empty() {
                break;
            }
            assert!(begin.elapsed() < time_limit(Duration::from_secs(3)), "left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(used.len() == 10 && surplus.count() > 0);
    });
}

/// Whether the kernel takes an EROFS image as it is: since Linux 6.12, and not on each file system.
fn is_mounted_from_file(image: &Path, place: &Path) -> bool {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    match mount(image, place, "erofs", MountFlags::RDONLY, None) {
        Ok(()) => unmount(place, UnmountFlags::empty()).is_ok(),
        Err(error) => {
            assert_eq!(error, rustix::io::Errno::NOTBLK);
            false
        }
    }
}

#[test]
fn without_loop_devices_only_squashfs_is_refused() {
    in_private_world(|arena| {
        let squashfs = arena.any_image();
        let erofs = arena.image("erofs", ImageFormat::Erofs);
        root("touch /mnt/none; mount --bind /mnt/none /dev/loop-control");
        let refused = arena.start().image(&squashfs, arena.first()).finish();
        let start = arena.start().image(&erofs, arena.first());
        let finished = start.script("cat /mnt/a/name").finish();
        root("umount /dev/loop-control");
        assert_refused(&refused, "cannot get a loop device");
        if !is_mounted_from_file(&erofs, arena.second()) {
            not_run!("this kernel mounts EROFS images only from loop devices");
        }
        assert_eq!(finished.success().stdout, "erofs");
    });
}

#[test]
fn an_image_stays_warm_for_the_idle_time_and_goes_with_a_later_start() {
    in_private_world(|arena| {
        arena.set_policy("mount-point /mnt/a\nimage-owners any\nidle-seconds 1\n");
        let (one, two) = (arena.any_image(), arena.image("two", ImageFormat::Squashfs));
        let start = |image: &Path| arena.start().image(image, arena.first()).finish().success();
        start(&one);
        let warm = loop_devices(arena).len();
        std::thread::sleep(Duration::from_millis(3100));
        start(&two);
        assert_eq!((warm, loop_devices(arena).len()), (1, 1));
    });
}

#[test]
fn cleaning_gives_up_unused_images_of_ones_own() {
    in_arena(|arena| {
        arena.keep_warm();
        let image = arena.any_image();
        let copy = |name: &str| arena.copy_of(&image, &format!("{name}.squashfs"));
        let start = |image: &Path| arena.start().image(image, arena.first());
        let used = Up::with(&start(&copy("used")), "echo up");
        start(&copy("unused")).finish().success();
        let foreign = usize::from(arena.is_private());
        if arena.is_private() {
            start(&copy("foreign")).user(USERS[1]).finish().success();
        }
        let before = loop_devices(arena).len();
        arena.start().clean().success();
        let after = loop_devices(arena).len();
        used.end();
        assert_eq!((before, after), (2 + foreign, 1 + foreign));
    });
}

#[test]
fn two_hundred_and_fifty_six_starts_of_four_users_share_superblocks() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = |number: usize| {
            arena
                .start()
                .user(arena.users()[number % arena.users().len()])
                .image(&image, arena.first())
        };
        let mut up: Vec<Up> =
            (0..256).map(|number| Up::begin(&start(number), &device(arena))).collect();
        up.iter_mut().for_each(Up::wait);
        let devices: BTreeSet<&str> = up.iter().map(|up| up.printed.as_str()).collect();
        let found = (devices.len(), loop_devices(arena).len());
        let late = Up::with(&start(0), &device(arena));
        let last = late.printed.clone();
        late.end();
        // No one waits for another user, who may have stopped in the middle: at the worst each
        // has one of his own. All later starts share the first.
        let most = arena.users().len();
        assert!(found.0 <= most && found.1 <= most, "{found:?}");
        assert!(devices.contains(last.as_str()));
        up.into_iter().for_each(Up::end);
    });
}

#[test]
fn two_hundred_and_fifty_six_starts_with_different_images_do_not_fail() {
    in_arena(|arena| {
        let image = arena.any_image();
        let erofs = arena.image("erofs", ImageFormat::Erofs);
        // Each user has eight of them, and they wait for each other at the end.
        let users = arena.users();
        let copies: Vec<PathBuf> = (0..8 * users.len())
            .map(|number| match number % 2 {
                0 => arena.copy_of(&image, &format!("copy{number}.squashfs")),
                _ => arena.copy_of(&erofs, &format!("copy{number}.erofs")),
            })
            .collect();
        let start = |number: usize| {
            let start = arena.start().user(users[number % users.len()]);
            start.image(&copies[number % copies.len()], arena.first())
        };
        let starts = fewer(256).max(2 * copies.len());
        cabane_testkit::say(&format!("note: {starts} starts with different images"));
        let mut up: Vec<Up> =
            (0..starts).map(|number| Up::begin(&start(number), &device(arena))).collect();
        up.iter_mut().for_each(Up::wait);
        let devices: BTreeSet<&str> = up.iter().map(|up| up.printed.as_str()).collect();
        let found = (devices.len(), loop_devices(arena).len());
        up.into_iter().for_each(Up::end);
        assert_eq!(found, (copies.len(), copies.len()));
    });
}

#[test]
fn what_is_unused_makes_space_however_many_start_meanwhile() {
    in_arena(|arena| {
        let image = arena.any_image();
        let begin = |user: usize, part: usize| {
            let copy = arena.world.path(&format!("copy{user}-{part}.squashfs"));
            for _ in 0..20 {
                // Another image each time, so that there are always too many.
                std::fs::copy(&image, &copy).unwrap();
                let start = arena.start().user(arena.users()[user]);
                let finished = start.image(&copy, arena.first()).finish();
                finished.success();
                std::fs::remove_file(&copy).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for user in 0..arena.users().len() {
                for part in 0..3 {
                    scope.spawn(move || begin(user, part));
                }
            }
        });
    });
}
