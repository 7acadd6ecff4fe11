// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Giving up images that nobody uses.
//!
//! An image is in use where a process sees a mount of its superblock. That can be read
//! in `/proc`, and is, but only for images that nobody has started with for the idle
//! time: rarely, and by one of the later starts. No process waits for that moment.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use cabane_sys::loop_device;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, makedev, minor, statx};

use super::entry::{self, Entry};
use super::place::{Holder, Home};
use crate::Error;

/// Loop devices below this number are there from the start on most systems.
const USUAL_LOOP_DEVICES: u32 = 8;

/// For how long a start is between taking an image and showing it to `/proc`, at most;
/// the image is in use all that time. One that takes longer has an image of its own in
/// the end, no more.
const STARTING: Duration = Duration::from_secs(2);

/// Which unused images are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those with which nobody has started for so long.
    Idle(Duration),
    /// Those that this user needed first, at once.
    UnusedOf(u32),
    /// All, at once.
    Unused,
    /// Copies that the node has of images, at once.
    UnusedCopies,
}

impl Scope {
    fn includes(self, entry: &Entry) -> bool {
        match self {
            Self::Idle(time) => entry.idle() >= time.max(STARTING),
            Self::UnusedOf(user) => entry.user() == Some(user),
            Self::Unused => true,
            // One that was taken a moment ago is not to be seen in `/proc` yet; as long as it is
            // used it counts.
            Self::UnusedCopies => entry.is_copy() && entry.idle() >= STARTING,
        }
    }
}

/// Gives up held images that no process uses, and returns how many that were.
///
/// The working directory of the process is `/` afterwards.
///
/// # Errors
///
/// [`Error::Holder`] where the holder cannot be entered.
pub fn sweep(scope: Scope) -> Result<usize, Error> {
    let Some(holder) = Holder::find()? else {
        return Ok(0);
    };
    let home = Home::remember()?;
    let (devices, root) = holder.visit(&home, || Ok((candidates(scope)?, root_of_holder()?)))?;
    let Some(devices) = devices else {
        return Ok(0);
    };
    let in_use = if devices.is_empty() {
        BTreeSet::new()
    } else {
        devices_in_use(root)
    };
    let (given_up, is_empty) = holder.visit(&home, || give_up(scope, &in_use))?;
    for number in given_up.iter().copied().filter_map(surplus_loop_device) {
        // Somebody else may have taken it.
        let _ = loop_device::remove(number);
    }
    if is_empty {
        holder.dismiss(&home, || Ok(entry::entries()?.next().is_none()))?;
    }
    Ok(given_up.len())
}

/// Tells whether an image was not used for this time. Asked in the holder.
pub(super) fn is_overdue(idle: Duration) -> Result<bool, Error> {
    Ok(entry::entries()?.any(|entry| entry.idle() >= idle))
}

/// Returns the devices of the entries in question; none if there is no entry in
/// question and the holder is in use.
fn candidates(scope: Scope) -> Result<Option<Vec<u64>>, Error> {
    let (mut devices, mut others, mut any) = (Vec::new(), false, false);
    for entry in entry::entries()? {
        if scope.includes(&entry) {
            any = true;
            devices.extend(entry.device());
        } else {
            others = true;
        }
    }
    Ok((any || !others).then_some(devices))
}

fn give_up(scope: Scope, in_use: &BTreeSet<u64>) -> Result<(Vec<u64>, bool), Error> {
    let (mut given_up, mut is_empty) = (Vec::new(), true);
    for entry in entry::entries()? {
        let device = entry.device();
        let is_used = device.is_some_and(|device| in_use.contains(&device));
        if !scope.includes(&entry) {
            is_empty = false;
        } else if is_used {
            entry.note_use();
            is_empty = false;
        } else if entry.drop_image() {
            given_up.extend(device);
        } else {
            is_empty = false;
        }
    }
    Ok((given_up, is_empty))
}

/// Returns the number of the mount that is the root of the holder.
fn root_of_holder() -> Result<u64, Error> {
    statx(CWD, "/", AtFlags::empty(), StatxFlags::MNT_ID)
        .map(|found| found.stx_mnt_id)
        .map_err(Error::holder("look at the root of the images"))
}

/// Returns the devices of all file systems that a process sees mounted. Who is only
/// looking into the holder does not count: he sees all of them.
fn devices_in_use(root_of_holder: u64) -> BTreeSet<u64> {
    let mut namespaces = BTreeSet::new();
    let mut devices = BTreeSet::new();
    let Ok(processes) = fs::read_dir("/proc") else {
        return devices;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        if !name.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let path = process.path();
        let Ok(namespace) = fs::read_link(path.join("ns/mnt")) else {
            continue;
        };
        // Processes in one namespace see the same mounts.
        if namespaces.contains(&namespace) {
            continue;
        }
        let text = fs::read(path.join("mountinfo")).unwrap_or_default();
        let mounts: Vec<(u64, u64)> = text
            .split(|byte| *byte == b'\n')
            .filter_map(mount_and_device)
            .collect();
        // It may have gone there since its namespace was looked up; on the way there or
        // back it sees nothing.
        if !mounts.is_empty() && mounts.iter().all(|(mount, _)| *mount != root_of_holder) {
            namespaces.insert(namespace);
            devices.extend(mounts.into_iter().map(|(_, device)| device));
        }
    }
    devices
}

/// The first word of a line is the number of the mount, the third `MAJOR:MINOR`
/// (`proc_pid_mountinfo(5)`).
fn mount_and_device(line: &[u8]) -> Option<(u64, u64)> {
    // Later words can hold anything.
    let mut words = line
        .split(|byte| *byte == b' ')
        .map(|word| std::str::from_utf8(word).ok());
    let mount = words.next()??.parse().ok()?;
    let (major, minor) = words.nth(1)??.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    Some((mount, device))
}

fn surplus_loop_device(device: u64) -> Option<u32> {
    let is_surplus = major(device) == loop_device::MAJOR && minor(device) >= USUAL_LOOP_DEVICES;
    is_surplus.then(|| minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_device_of_a_mount_are_read() {
        let line = b"36 35 7:12 / /user-environment ro - squashfs /dev/loop12 ro";
        assert_eq!(mount_and_device(line), Some((36, makedev(7, 12))));
    }

    #[test]
    fn the_first_loop_devices_stay() {
        let devices = [makedev(7, 7), makedev(7, 8), makedev(8, 9)];
        assert_eq!(devices.map(surplus_loop_device), [None, Some(8), None]);
    }
}
