// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the kernel can do.

use std::fs;
use std::path::Path;

use cabane_mount::{Backend, enter_private_namespace};
use cabane_sys::loop_device;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};

use super::MOUNTING;
use crate::facts::{Answer, Has, Kernel, Loops, Process};
use crate::probe::within;

/// Loop devices below this number are there from the start on most systems.
pub(crate) const USUAL_LOOP_DEVICES: u32 = 8;

/// Tries what can be tried.
pub(crate) fn look_at_kernel(process: &Process) -> Answer<Kernel> {
    let backend = if process.counts_as_root { Backend::Root } else { Backend::UserNamespace };
    within(MOUNTING, || {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::empty()).map(drop);
        let loops = loops();
        // A file system can be opened by the owner of its mounts.
        let may_try = enter_private_namespace(backend).is_ok();
        let file_system = |name| {
            if may_try {
                has(fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).map(drop))
            } else {
                Has::Unknown
            }
        };
        Kernel {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            new_mount_calls: file_system("tmpfs"),
            openat2: has(opened),
            squashfs: file_system("squashfs"),
            erofs: file_system("erofs"),
            loops,
        }
    })
}

fn has(result: Result<(), Errno>) -> Has {
    match result {
        Ok(()) => Has::Yes,
        Err(Errno::NOSYS | Errno::NODEV) => Has::No,
        Err(_) => Has::Unknown,
    }
}

/// Looks at the loop devices.
pub(super) fn loops() -> Loops {
    let mut loops = Loops { control: Path::new("/dev/loop-control").exists(), ..Loops::default() };
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop"));
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        loops.all.push(number);
        // Only a device that is bound has this file.
        if let Ok(file) = fs::read_to_string(entry.path().join("loop/backing_file")) {
            loops.used.push((number, file.trim_end().to_owned()));
        }
    }
    loops.all.sort_unstable();
    loops.used.sort();
    loops
}

/// Removes devices that a trial made: asking for a free one makes it if there is none.
pub(super) fn remove_surplus(before: &Loops) {
    let now = loops();
    let is_used = |number: &u32| now.used.iter().any(|(used, _)| used == number);
    for number in now.all.iter().filter(|number| **number >= USUAL_LOOP_DEVICES) {
        if !before.all.contains(number) && !is_used(number) {
            // Someone else may have taken it.
            let _ = loop_device::remove(*number);
        }
    }
}
