// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! No one looks into the helper, whatever `fs.suid_dumpable` says: that setting is for core
//! files, but a process that changes its user takes its word.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use rustix::fs::{FlockOperation, flock};
use rustix::pipe::PipeFlags;

use crate::arena::{Arena, in_private_world};
use crate::start::become_user;
use crate::traced::{Call, Stopped, calls};

const SETTING: &str = "/proc/sys/fs/suid_dumpable";

/// The setting of the whole machine, changed by one test at a time and set back at the end.
struct Setting {
    before: String,
    _lock: File,
}

impl Setting {
    fn change() -> Self {
        let lock = File::create(std::env::temp_dir().join("cabane-test-suid-dumpable")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        Self { before: fs::read_to_string(SETTING).unwrap(), _lock: lock }
    }

    #[expect(clippy::unused_self, reason = "only while it is to be set back")]
    fn set(&self, value: &str) {
        fs::write(SETTING, value).unwrap();
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(SETTING, &self.before);
    }
}

/// What the user can read of a process that should be closed to him. Between two system calls
/// its files may belong to him, if he can read nothing all the same.
fn seen(process: u32, is_between: bool) -> Vec<String> {
    let look = || {
        become_user(cabane_testkit::ORDINARY_USER, &[]).unwrap();
        let mut seen = Vec::new();
        for name in ["environ", "auxv", "maps", "syscall", "stat", "fd", "ns", "map_files", "mem"] {
            let path = format!("/proc/{process}/{name}");
            let found = fs::metadata(&path).unwrap();
            let is_open = match name {
                // Everyone may read a part of it.
                "stat" => false,
                // Until looking in is forbidden anew, the names are seen, and no more.
                "fd" | "ns" | "map_files" if is_between => {
                    fs::read_dir(&path).is_ok_and(|mut list| {
                        list.any(|one| one.is_ok_and(|one| fs::read_link(one.path()).is_ok()))
                    })
                }
                "mem" => File::open(&path).is_ok(),
                _ if found.is_dir() => {
                    fs::read_dir(&path).is_ok_and(|list| list.flatten().next().is_some())
                }
                _ => fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()),
            };
            if is_open {
                seen.push(format!("{name} is read"));
            }
            if found.uid() != 0 && !is_between {
                seen.push(format!("{name} belongs to {}", found.uid()));
            }
        }
        let mut strace = Command::new("timeout");
        strace.args(["2", "strace", "-p", &process.to_string()]);
        let output = strace.output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("attached") {
            seen.push("strace".to_owned());
        }
        seen
    };
    std::thread::scope(|scope| scope.spawn(look).join().unwrap())
}

/// A helper that has given up its rights and waits for someone to read its error.
fn with_an_unread_error(arena: &Arena) -> (Child, std::os::fd::OwnedFd) {
    let image = arena.image("broken", ImageFormat::Erofs);
    fs::write(&image, "no image").unwrap();
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut command = arena.start().image(&image, arena.first()).process();
    let child = command.stderr(writer).spawn().unwrap();
    wait_until(child.id(), |status| {
        let uid = status.lines().find(|line| line.starts_with("Uid:"));
        status.contains("cabane-mount")
            && status.contains("State:\tS")
            && uid.is_some_and(|line| !line.contains("\t0"))
    });
    (child, reader)
}

fn wait_until(process: u32, is_so: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    let status = || fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    while !is_so(&status()) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{}", status());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_process_can_inspect_the_helper_after_it_has_given_up_its_rights() {
    in_private_world(|arena| {
        let setting = Setting::change();
        let mut found = Vec::new();
        for value in ["0", "1", "2"] {
            setting.set(value);
            let (mut child, reader) = with_an_unread_error(arena);
            let seen = seen(child.id(), false);
            child.kill().unwrap();
            child.wait().unwrap();
            drop(reader);
            found.extend(seen.iter().map(|what| format!("{value}: {what}")));
        }
        drop(setting);
        assert!(found.is_empty(), "{found:#?}");
    });
}

/// System calls by which rights come and go, and some in between.
const STOPS: [&str; 9] = [
    "prctl",
    "setresuid",
    "setresgid",
    "setfsuid",
    "capset",
    "fsopen",
    "unshare",
    "setns",
    "umask",
];

#[test]
fn no_process_can_inspect_the_helper_at_any_change_of_its_rights() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let mut calls = calls(arena, &start);
        // Of those that come by the dozen the first and last few.
        calls.retain(|call| STOPS.contains(&call.name.as_str()));
        let is_edge = |call: &Call| call.name != "prctl" || call.is_among(&calls, 2);
        let calls: Vec<&Call> = calls.iter().filter(|call| is_edge(call)).collect();
        let setting = Setting::change();
        let (mut found, mut stops) = (Vec::new(), 0);
        for value in ["0", "1", "2"] {
            setting.set(value);
            for call in &calls {
                arena.start().clean();
                let Some(stopped) = Stopped::at(arena, &start, call) else {
                    continue;
                };
                stops += 1;
                // A word about the process follows such a call.
                let seen = seen(stopped.process, call.name.starts_with("set"));
                stopped.go_on();
                found.extend(seen.iter().map(|what| format!("{value} {call:?}: {what}")));
            }
        }
        drop(setting);
        assert!(stops > 2 * calls.len(), "{stops}");
        assert!(found.is_empty(), "{found:#?}");
    });
}
