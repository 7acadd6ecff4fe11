// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How many mounts a user has in namespaces of his own is no matter of anyone else's start.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{ORDINARY_USER, compile, say};

use crate::arena::{Arena, in_private_world, root};
use crate::left_over::USERS;
use crate::start::{Start, become_user};
use crate::traced::traced;

/// How many namespaces there are, with how many mounts each.
const NAMESPACES: usize = 6;
const MOUNTS: usize = 3000;
/// An image that has not been used for longer is given up.
const IDLE: Duration = Duration::from_millis(2200);

/// Namespaces of the attacker, for as long as it is there.
struct Tables {
    process: Child,
}

impl Tables {
    fn new(arena: &Arena) -> Self {
        let program = arena.world.path("mount_tables");
        compile(include_str!("mount_tables.c"), &program, ["-O1"]);
        let place = arena.world.directory("tables");
        root(&format!("chown {ORDINARY_USER} {}", place.display()));
        let mut command = Command::new(program);
        command
            .args([NAMESPACES.to_string(), MOUNTS.to_string()])
            .arg(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        cabane_process::child::prepare_child(&mut command, || become_user(ORDINARY_USER, &[]));
        let mut process = command.spawn().unwrap();
        let mut output = [0; 3];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut output).unwrap();
        Self { process }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// What a start opens of the tables of mounts in `/proc`, besides its own.
fn foreign_tables(arena: &Arena, start: &Start<'_>) -> Vec<String> {
    let log = arena.world.path("strace");
    let start = traced(start, USERS[1], &["-y", "-e", "trace=open,openat,openat2"], &log);
    start.finish().success();
    let log = fs::read_to_string(log).unwrap();
    let is_table = |line: &&str| line.contains("mountinfo") || line.contains("mounts\"");
    let is_own = |line: &str| line.contains("/proc/self/") || line.contains("/proc/thread-self/");
    let foreign = log.lines().filter(is_table).filter(|line| !is_own(line));
    foreign.map(str::to_owned).collect()
}

fn start<'a>(arena: &'a Arena, image: &Path) -> Start<'a> {
    arena.start().image(image, arena.first())
}

#[test]
fn a_start_reads_no_table_of_mounts_of_others() {
    in_private_world(|arena| {
        let (one, two) = (arena.any_image(), arena.image("two", ImageFormat::Erofs));
        // Nothing is held; the image is held; another one is, whose idle time is over.
        let first = foreign_tables(arena, &start(arena, &one));
        let again = foreign_tables(arena, &start(arena, &one));
        std::thread::sleep(IDLE);
        let later = foreign_tables(arena, &start(arena, &two));
        let read = [first, again, later].map(|tables| tables.len());
        assert_eq!(read, [0, 0, 0]);
    });
}

#[test]
fn a_start_that_needs_space_reads_no_table_of_mounts_of_others() {
    in_private_world(|arena| {
        let limit = arena.few_images();
        let image = arena.any_image();
        for number in 0..limit {
            let copy = arena.copy_of(&image, &format!("copy{number}.squashfs"));
            start(arena, &copy).user(USERS[1]).finish().success();
        }
        let read = foreign_tables(arena, &start(arena, &image));
        assert_eq!(read, Vec::<String>::new());
    });
}

#[test]
fn thousands_of_mounts_of_one_user_do_not_slow_down_another() {
    in_private_world(|arena| {
        let images = ["one", "two"].map(|name| arena.image(name, ImageFormat::Squashfs));
        let slowest = || {
            (0..4)
                .map(|number| {
                    // There is an image whose idle time is over: the other one.
                    std::thread::sleep(IDLE);
                    let begin = Instant::now();
                    let start = start(arena, &images[number % 2]).user(USERS[1]);
                    start.finish().success();
                    begin.elapsed()
                })
                .max()
                .unwrap_or_default()
        };
        let alone = slowest();
        let tables = Tables::new(arena);
        let beside = slowest();
        drop(tables);
        let ratio = beside.as_secs_f64() / alone.as_secs_f64();
        say(&format!("note: beside {MOUNTS} mounts a start takes {ratio:.1} times as long"));
        assert!(beside < Duration::from_secs(10), "{beside:?}");
    });
}
