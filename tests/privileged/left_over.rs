// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is left after an attack: nothing may be.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cabane_testkit::{ORDINARY_USER, time_limit};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, makedev};

use crate::arena::Arena;

/// The other ordinary users of the tests follow the first one.
pub(crate) const USERS: [u32; 4] =
    [ORDINARY_USER, ORDINARY_USER + 1, ORDINARY_USER + 2, ORDINARY_USER + 3];

/// For how long the kernel may go on cleaning up by itself.
const TIME_LIMIT: Duration = Duration::from_millis(3500);

/// Gives up what is unused, and counts.
#[track_caller]
pub(crate) fn assert_none(arena: &Arena) {
    if after_cleaning(arena).is_empty() {
        return;
    }
    // What no one owns goes after the idle time, with the next start.
    if arena.is_private() {
        arena.set_policy(crate::arena::POLICY);
    }
    let image = arena.image("last", cabane_mount::ImageFormat::Squashfs);
    let finished = arena.start().image(&image, arena.first()).finish();
    let left = after_cleaning(arena);
    assert!(left.is_empty(), "left behind: {left:#?} {finished:?}");
}

/// Returns what is still there when the kernel has had the time to clean up.
fn after_cleaning(arena: &Arena) -> Vec<String> {
    let begin = Instant::now();
    loop {
        clean(arena);
        let left = left(arena);
        if left.is_empty() || begin.elapsed() > time_limit(TIME_LIMIT) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn clean(arena: &Arena) {
    for user in arena.users() {
        arena.start().user(*user).clean();
    }
}

fn left(arena: &Arena) -> Vec<String> {
    let mut left: Vec<String> =
        loop_devices(arena).into_iter().map(|device| format!("loop device {device}")).collect();
    left.extend(mounts(arena).map(|line| format!("mount {line}")));
    left.extend(processes());
    left.extend(verity_devices().map(|name| format!("verified device {name}")));
    if arena.is_private() {
        left.extend(cache(arena));
    }
    left
}

/// The numbers of the loop devices that are bound to files of the test.
pub(crate) fn loop_devices(arena: &Arena) -> BTreeSet<u32> {
    let files = files(&arena.world.path(""));
    if arena.is_private() {
        return loop_devices_by_inode(&files);
    }
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let number: u32 = name.strip_prefix("loop")?.parse().ok()?;
        is_bound_to_one(&entry.path(), &files).then_some(number)
    };
    devices.filter_map(number).collect()
}

/// The names of the devices on which the kernel checks images. No two tests make some at a time.
fn verity_devices() -> impl Iterator<Item = String> {
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let names = devices.filter_map(|one| fs::read_to_string(one.path().join("dm/name")).ok());
    names.filter(|name| name.starts_with("cabane-"))
}

/// Root can ask which file a device is bound to. Worlds of other tests have files with the same
/// numbers, on other file systems.
fn loop_devices_by_inode(files: &BTreeSet<File>) -> BTreeSet<u32> {
    let mut losetup = Command::new("losetup");
    let output = losetup
        .args(["--list", "--noheadings"])
        .args(["--output", "NAME,BACK-INO,BACK-MAJ:MIN"])
        .output()
        .unwrap();
    let number = |line: &str| {
        let mut fields = line.split_whitespace();
        let (name, inode, device) = (fields.next()?, fields.next()?, fields.next()?);
        let inode: u64 = inode.parse().ok()?;
        let (major, minor) = device.split_once(':')?;
        let device = makedev(major.parse().ok()?, minor.parse().ok()?);
        let is_ours = |file: &File| (file.inode, file.device) == (inode, device);
        let number = || name.strip_prefix("/dev/loop")?.parse().ok();
        files.iter().any(is_ours).then(number)?
    };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(number).collect()
}

/// The helper hides the names of files from everyone else, who has to go by the size:
/// nothing but one test is at work then.
fn is_bound_to_one(device: &Path, files: &BTreeSet<File>) -> bool {
    let read = |name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
    let sectors: u64 = read("size").trim().parse().unwrap_or_default();
    read("loop/backing_file") == "/\n" && files.iter().any(|file| file.size / 512 == sectors)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct File {
    device: u64,
    inode: u64,
    size: u64,
}

/// The files in a directory.
fn files(directory: &Path) -> BTreeSet<File> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let metadata = files.filter_map(|file| file.metadata().ok());
    metadata
        .filter(fs::Metadata::is_file)
        .map(|found| File { device: found.dev(), inode: found.ino(), size: found.len() })
        .collect()
}

fn mounts(arena: &Arena) -> impl Iterator<Item = String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut places = vec![arena.first().to_owned(), arena.second().to_owned()];
    places.push(arena.world.path(""));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.into_iter().filter(move |line| {
        let place = line.split(' ').nth(4).unwrap_or_default();
        places.iter().any(|ours| Path::new(place).starts_with(ours))
    })
}

fn processes() -> impl Iterator<Item = String> {
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let is_attacker = |status: &str| {
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.split_whitespace().next()?.to_owned())
        };
        let users = USERS.map(|user| Some(user.to_string()));
        let is_helper = value("Name:").as_deref() == Some("cabane-mount");
        let is_dead = value("State:").as_deref() == Some("Z");
        !is_dead
            && (is_helper
                || std::env::var_os("CABANE_TEST_ARENA").is_some()
                    && users.contains(&value("Uid:")))
    };
    all.filter(move |entry| entry.file_name() != own.as_str())
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .filter(move |status| is_attacker(status))
        .map(|status| format!("process {}", status.lines().take(9).collect::<Vec<_>>().join(" ")))
}

fn cache(arena: &Arena) -> Option<String> {
    let state = rustix::fs::open("/run/cabane", OFlags::RDONLY, Mode::empty()).ok()?;
    if flock(&state, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Some("the lock of /run/cabane".to_owned());
    }
    let (entries, _) = arena.cache()?;
    (!entries.is_empty()).then(|| format!("in the cache {entries:?}"))
}
