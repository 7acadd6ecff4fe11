// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Giving up images that nobody uses.
//!
//! No mount table of another process is read. An image is unmounted in the cache; if that
//! was its last mount, the kernel has freed its loop device. If the device is still bound,
//! somebody uses the image: then it is mounted from there again, which is the same superblock.
//! That costs the same however many processes and mounts there are on the node.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, mkdirat, statat};

use super::entry::{self, Entry};
use super::find_device;
use super::place::{Cache, Home, pause};
use crate::operations;
use crate::{Error, ImageFormat};

/// Loop devices below this number are there from the start on most systems.
const USUAL_LOOP_DEVICES: u32 = 8;
/// The shortest time between two looks, and for which an image stays.
const SHORTEST: Duration = Duration::from_secs(2);
/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(60);
/// The time of the last look.
const RELEASED: &str = "/.released";
/// How often a loop device that is not needed any more is removed, a millisecond apart.
const ATTEMPTS: u32 = 20;
/// How many images that were not used for a while one start looks at, and for how long.
const AT_ONCE: usize = 16;
const TIME: Duration = Duration::from_millis(20);

/// Which unused images are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Some of those with which nobody has started for so long.
    Idle(Duration),
    /// Those that this user needed first, at once.
    UnusedOf(u32),
    /// All, at once; and the cache, if it is empty then.
    Unused,
    /// Copies that the node has of images, at once.
    UnusedCopies,
}

impl Scope {
    fn includes(self, entry: &Entry) -> bool {
        match self {
            Self::Idle(time) => entry.idle() >= time.max(SHORTEST),
            Self::UnusedOf(user) => entry.user() == Some(user),
            Self::Unused => true,
            Self::UnusedCopies => entry.is_copy(),
        }
    }

    /// Tells whether it is by the way of a start, which waits for nothing.
    fn is_of_start(self) -> bool {
        matches!(self, Self::Idle(_))
    }

    fn limit(self) -> (usize, Duration) {
        if self.is_of_start() {
            (AT_ONCE, TIME)
        } else {
            (usize::MAX, Duration::MAX)
        }
    }
}

/// Gives up images that no process uses, and returns how many that were.
///
/// The working directory of the process is `/` afterwards.
///
/// # Errors
///
/// [`Error::Cache`] where the cache cannot be entered.
pub fn release(scope: Scope) -> Result<usize, Error> {
    let Some(cache) = Cache::find()? else {
        return Ok(0);
    };
    let home = Home::remember()?;
    let unmounted = cache.visit(&home, || unmount(scope))?;
    // At home, because the cache has no `/dev`.
    let looked: Vec<_> = unmounted.into_iter().map(Unmounted::look).collect();
    let given_up = cache.visit(&home, || {
        Ok(looked.iter().filter(|one| one.settle()).count())
    })?;
    for number in looked.iter().filter_map(Looked::surplus) {
        // The kernel may not have done with it yet. A start does not wait for that.
        for _ in 0..if scope.is_of_start() { 1 } else { ATTEMPTS } {
            if operations::remove_loop_device(number) {
                break;
            }
            pause();
        }
    }
    if scope == Scope::Unused {
        cache.dismiss(&home, || Ok(entry::names()?.is_empty()))?;
    }
    Ok(given_up)
}

/// Tells whether it is time to look for unused images, and notes that somebody does so now.
/// Asked in the cache.
pub(super) fn is_due(idle: Duration) -> bool {
    let between = (idle / 4).clamp(SHORTEST, LONGEST);
    if statat(CWD, RELEASED, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| entry::age(&found) < between)
    {
        return false;
    }
    let _ = mkdirat(CWD, RELEASED, Mode::RWXU);
    // Where it cannot be noted everybody would look.
    entry::open_directory(RELEASED).is_ok_and(|directory| entry::touch(directory).is_ok())
}

/// An entry that is locked, and out of which the image was taken.
struct Unmounted {
    entry: Entry,
    format: Option<ImageFormat>,
}

/// The same, after a look whether somebody uses it.
struct Looked {
    entry: Entry,
    number: Option<u32>,
    is_used: bool,
    mount: Option<OwnedFd>,
}

fn unmount(scope: Scope) -> Result<Vec<Unmounted>, Error> {
    let (most, time) = scope.limit();
    let begin = Instant::now();
    let mut unmounted = Vec::new();
    for name in entry::names()? {
        if unmounted.len() >= most || begin.elapsed() > time {
            break;
        }
        let Some(entry) = Entry::open(&name) else {
            continue;
        };
        // Locked by somebody who is at work on it.
        if scope.includes(&entry) && entry.try_lock() && entry.is_there() {
            let format = entry.format();
            entry.unmount();
            unmounted.push(Unmounted { entry, format });
        }
    }
    Ok(unmounted)
}

impl Unmounted {
    /// Mounts the image again, if its device is still bound.
    fn look(self) -> Looked {
        let Self { entry, format } = self;
        let number = entry.device().map(|(number, _)| number);
        let device = find_device(&entry);
        let mount = device
            .as_ref()
            .zip(format)
            .and_then(|(device, format)| operations::mount_image(format, device.path()).ok());
        Looked {
            entry,
            number,
            is_used: device.is_some(),
            mount,
        }
    }
}

impl Looked {
    /// Puts what is used back, and removes the entry of what is not; tells whether it was
    /// removed. One that is used and cannot be put back keeps its entry, which counts.
    fn settle(&self) -> bool {
        if !self.is_used {
            self.entry.give_up();
            return true;
        }
        if let Some(mount) = &self.mount
            && self.entry.fill(mount.as_fd()).is_ok()
        {
            self.entry.note_use();
        }
        false
    }

    /// Returns the device, if it was made for the image and is not needed any more.
    fn surplus(&self) -> Option<u32> {
        self.number
            .filter(|number| !self.is_used && *number >= USUAL_LOOP_DEVICES)
    }
}
