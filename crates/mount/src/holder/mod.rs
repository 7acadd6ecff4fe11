// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One superblock per image per node.
//!
//! Images that are in use are mounted once, in a mount namespace that only root can
//! enter: the *holder*. Whoever starts an environment gets a clone of that mount, so
//! that all processes of the node share what was read and unpacked. No process stays
//! behind: the holder is kept alive by a mount of its namespace file.
//!
//! ```text
//! /run/cabane/                 0700, of the first process's mount namespace
//! └── images                   the holder's namespace file, mounted here
//!
//! in the holder, on a file system in memory:
//! /<device>-<inode>-<size>-<modified>-<changed>/   who made it owns it; its time of
//! └── image/                   modification is the last start; the mount is here
//! ```
//!
//! The name of an entry says which file it was when it was opened *by the caller*. An
//! image that is held keeps its inode, so the same device and inode are the same file.
//! A file that was written to since has other times, and gets an entry of its own. `+memory`
//! or `+local` behind it says that what is mounted is a copy of that file (`stage.rs`):
//! whoever can open the original may have it.
//!
//! Locks are those of `flock` on the directories themselves and end with their
//! process. They spare work, and nothing depends on them: a user can stop a process of
//! his in the middle (a control group that he may freeze is enough), and must not stop
//! the others with it. So nobody waits for long, and then goes on without the lock.

mod entry;
mod place;
mod sweep;

use std::os::fd::{AsFd, OwnedFd};

use crate::{Error, ImageFile, Policy, Stage, kernel, stage};
use entry::{Entry, Key, Taken};
use place::{Holder, Home};

pub use sweep::{Scope, sweep};

/// Returns a detached mount of each image, from the holder, and gives up images that
/// were not used for the idle time.
///
/// Root and working directory of the process are what they were afterwards, except
/// that the working directory is `/`.
///
/// # Errors
///
/// [`Error::Holder`] where the holder cannot be made or entered, [`Error::TooManyImages`],
/// and those of mounting.
pub(crate) fn obtain(
    images: &[&ImageFile],
    stage: Option<Stage>,
    policy: &Policy,
    user: u32,
) -> Result<Vec<OwnedFd>, Error> {
    // Where no copies are allowed there are none to be had either.
    stage.map(|stage| stage.limit(policy)).transpose()?;
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let keys = images
        .iter()
        .map(|image| Key::of(image, stage))
        .collect::<Result<Vec<_>, _>>()?;
    let home = Home::remember()?;
    let (mut taken, is_overdue) = match Holder::find()? {
        Some(holder) => holder.visit(&home, || {
            Ok((take_all(&keys), sweep::is_overdue(policy.idle)?))
        })?,
        None => (keys.iter().map(|_| None).collect(), false),
    };
    for ((image, key), taken) in images.iter().zip(&keys).zip(&mut taken) {
        if taken.is_none() {
            *taken = Some(keep(&home, image, (key, stage), policy, user)?);
        }
    }
    // Now that the images of this start count as used.
    if is_overdue {
        sweep(Scope::Idle(policy.idle))?;
    }
    Ok(taken.into_iter().flatten().collect())
}

/// How often room is made for an image of a user who holds many.
const ATTEMPTS: u32 = 8;

fn take_all(keys: &[Key]) -> Vec<Option<OwnedFd>> {
    keys.iter().map(entry::take).collect()
}

/// Mounts an image that nobody holds yet, or takes it if somebody else was faster.
fn keep(
    home: &Home,
    image: &ImageFile,
    (key, stage): (&Key, Option<Stage>),
    policy: &Policy,
    user: u32,
) -> Result<OwnedFd, Error> {
    let holder = Holder::find_or_make(home)?;
    let mut attempts = 0_u32;
    let taken = loop {
        let reserved = holder.visit(home, || match stage {
            None => entry::reserve(key, user, policy.images_per_user),
            Some(stage) => entry::reserve_copy(key, user, policy, stage, &image.path),
        });
        match reserved {
            // Other starts can take the room that was made before this one gets to it;
            // where there was none to be made, that is seen twice.
            Err(ref error @ (Error::TooManyImages { .. } | Error::NoRoomForCopy { .. }))
                if attempts < ATTEMPTS =>
            {
                let scope = match error {
                    Error::NoRoomForCopy { .. } => Scope::UnusedCopies,
                    _ => Scope::UnusedOf(user),
                };
                let made_room = sweep(scope)? > 0;
                attempts = attempts.saturating_add(if made_room { 1 } else { ATTEMPTS / 2 });
            }
            taken => break taken?,
        }
    };
    let entry = match taken {
        Taken::Mounted(mount) => return Ok(mount),
        Taken::Reserved(entry) => entry,
    };
    // At home, because the holder has neither `/dev` nor `/proc`.
    let mounted = match stage {
        Some(stage) => copy_and_attach(image, stage, policy, &entry),
        // Root opened it with rights of its own, and may be in a namespace of its own.
        None if user == 0 => kernel::attach(image),
        None => kernel::attach_for(image, user),
    };
    holder.visit(home, || match mounted {
        Ok(mount) => entry.fill(mount.as_fd()),
        Err(error) => {
            entry.give_up();
            Err(error)
        }
    })
}

/// Who waits for the copy sees by the time of the entry that it gets on.
fn copy_and_attach(
    image: &ImageFile,
    stage: Stage,
    policy: &Policy,
    entry: &Entry,
) -> Result<OwnedFd, Error> {
    let copy = stage::copy(image, stage, policy, || entry.note_use())?;
    kernel::attach(&copy)
}
