// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Giving up unused images.
//!
//! No mount table of another process is read. An image is unmounted in the cache; if that
//! was its last mount, the kernel has freed its loop device. If the device is still bound,
//! someone uses the image: then it is mounted from there again, which is the same superblock.
//! That costs the same however many processes and mounts there are on the node.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, mkdirat, statat};

use super::entry::{self, Device, Entry, Noted};
use super::place::{Cache, Home, pause};
use crate::operations;
use crate::{Error, ImageFormat, Policy};

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
/// How long the kernel may take to free the mounts of a process that has ended: it leaves that to
/// one of its own threads (`delayed_mntput` in Linux's `fs/namespace.c`), which took more than
/// 50 ms on a busy node.
const FREEING: Duration = Duration::from_millis(300);
/// How many images that were not used for a while one start looks at, and for how long.
const AT_ONCE: usize = 16;
const TIME: Duration = Duration::from_millis(20);

/// Which unused images are given up.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// Some of those with which no one has started for the idle time of the policy.
    Idle(&'a Policy),
    /// All that count for the user or that the user needed first, at once.
    UnusedOwn,
    /// The same, unless the user has fewer images than this limit allows.
    SpaceForOne(u32),
    /// All, at once; and the cache, if it is empty then.
    Unused,
    /// Copies that the node has of images, at once.
    UnusedCopies,
}

impl Scope<'_> {
    fn includes(self, entry: &Entry, user: u32, home: &Home) -> bool {
        match self {
            Self::Idle(policy) => entry.idle() >= policy.idle.max(SHORTEST),
            Self::UnusedOwn | Self::SpaceForOne(_) => {
                entry.user() == Some(user) || entry.counts_for(user, home)
            }
            Self::Unused => true,
            Self::UnusedCopies => entry.is_copy(),
        }
    }

    /// Tells whether it is by the way of a start, which waits for nothing.
    fn is_of_start(self) -> bool {
        matches!(self, Self::Idle(_))
    }

    /// Returns how many images are looked at, and for how long.
    fn limits(self) -> (usize, Duration) {
        if self.is_of_start() { (AT_ONCE, TIME) } else { (usize::MAX, Duration::MAX) }
    }
}

/// Gives up images that no process uses, for a user, and returns how many that were.
///
/// The working directory of the process is `/` afterwards.
///
/// # Errors
///
/// [`Error::Cache`] where the cache cannot be entered, and [`Error::OtherStart`].
pub fn release(scope: Scope<'_>, user: u32) -> Result<usize, Error> {
    let Some(cache) = Cache::find()? else {
        return Ok(0);
    };
    let home = Home::remember()?;
    let taken_out = cache.visit(&home, || {
        // A start does not wait: another start of this user already looks.
        let lock = if scope.is_of_start() {
            entry::lock_of_within(user, Duration::ZERO)?
        } else {
            Some(entry::lock_of(user)?)
        };
        let Some(lock) = lock else {
            return Ok(Err(0));
        };
        // Images of others count for this user, too, while they are out of the cache.
        let most_of_others = match scope {
            Scope::Idle(policy) => entry::space_of(user, policy.images_per_user, &home)?,
            Scope::SpaceForOne(limit) if entry::space_of(user, limit, &home)? > 0 => {
                return Ok(Err(1));
            }
            _ => usize::MAX,
        };
        if most_of_others == 0 {
            return Ok(Err(0));
        }
        if scope.is_of_start() {
            note_look();
        }
        Ok(Ok((lock, take_out(scope, user, most_of_others, &home)?)))
    })?;
    let (lock, taken_out) = match taken_out {
        Ok(taken_out) => taken_out,
        Err(nothing_to_do) => return Ok(nothing_to_do),
    };
    // At home, because the cache has no `/dev`.
    if !scope.is_of_start() {
        wait_for_ended_processes(&taken_out, &home);
    }
    let taken_out = taken_out.into_iter();
    let looked: Vec<_> = taken_out.map(|one| one.look(&home)).collect();
    let given_up = cache.visit(&home, || Ok(looked.iter().filter(|one| one.settle()).count()))?;
    // While images were out, the user's count was too high.
    drop(lock);
    for number in looked.iter().flat_map(Looked::surplus) {
        // The kernel may not have done with it yet. A start does not wait for that.
        for _ in 0..if scope.is_of_start() { 1 } else { ATTEMPTS } {
            if operations::remove_loop_device(number) {
                break;
            }
            pause();
        }
    }
    if matches!(scope, Scope::Unused) {
        cache.dismiss(&home, || Ok(entry::names()?.is_empty()))?;
    }
    Ok(given_up)
}

/// Tells whether it is time to look for unused images. To be called in the cache.
pub(super) fn is_due(idle: Duration) -> bool {
    let between = (idle / 4).clamp(SHORTEST, LONGEST);
    let last = statat(CWD, RELEASED, AtFlags::SYMLINK_NOFOLLOW);
    last.is_err() || last.is_ok_and(|found| entry::age(&found) >= between)
}

/// Records the time of this check.
fn note_look() {
    let _ = mkdirat(CWD, RELEASED, Mode::RWXU);
    let _ = entry::open_directory(RELEASED).and_then(entry::touch);
}

/// An entry that is locked, and out of which the image was taken.
struct TakenOut {
    entry: Entry,
    format: Option<ImageFormat>,
}

/// The same, after checking that it is not in use.
struct Looked {
    entry: Entry,
    noted: Option<Noted>,
    is_used: bool,
    mount: Option<OwnedFd>,
}

/// Takes images out of the cache for a user.
fn take_out(
    scope: Scope<'_>,
    user: u32,
    mut most_of_others: usize,
    home: &Home,
) -> Result<Vec<TakenOut>, Error> {
    entry::remove_remains()?;
    let (most, time) = scope.limits();
    let begin = Instant::now();
    let mut taken_out = Vec::new();
    for name in entry::names()? {
        // One is always taken out: on a slow or busy node, each start gives up a little.
        if taken_out.len() >= most || !taken_out.is_empty() && begin.elapsed() > time {
            break;
        }
        let Some(entry) = Entry::open(&name) else {
            continue;
        };
        if !scope.includes(&entry, user, home) {
            continue;
        }
        let is_others = !entry.counts_for(user, home);
        if is_others && most_of_others == 0 {
            continue;
        }
        // Locked by a process that works on it.
        if entry.try_lock() && entry.is_there() {
            let format = entry.format();
            if entry.take_out(user) {
                most_of_others = most_of_others.saturating_sub(usize::from(is_others));
                taken_out.push(TakenOut { entry, format });
            }
        }
    }
    Ok(taken_out)
}

/// Waits until no one uses any of the images, and not for long: who asks right after the end of
/// the last command with an image expects that no one uses it.
fn wait_for_ended_processes(taken_out: &[TakenOut], home: &Home) {
    let begin = Instant::now();
    let is_bound = |one: &TakenOut| matches!(one.entry.device(home), Device::Bound(_));
    while taken_out.iter().any(is_bound) && begin.elapsed() < FREEING {
        pause();
    }
}

impl TakenOut {
    /// Mounts the image again, if its device is still bound.
    fn look(self, home: &Home) -> Looked {
        let Self { entry, format } = self;
        let noted = entry.noted_device();
        let (is_used, mount) = match entry.device(home) {
            Device::Bound(device) => {
                let mount = |format| operations::mount_image(format, device.path()).ok();
                (true, format.and_then(mount))
            }
            // To be tried again.
            Device::Unknown(_) => (true, None),
            Device::Missing | Device::Unbound => (false, None),
        };
        Looked { entry, noted, is_used, mount }
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
        self.entry.note_back();
        false
    }

    /// Returns the loop devices that were made for the image and are not needed any more.
    fn surplus(&self) -> impl Iterator<Item = u32> {
        let noted = self.noted.as_ref().filter(|_| !self.is_used);
        let numbers = noted.into_iter().flat_map(Noted::loop_devices);
        numbers.filter(|number| *number >= USUAL_LOOP_DEVICES)
    }
}
