// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The entries of the holder: one for each image that is held.
//!
//! Everything here happens in the namespace of the holder.

use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, fchown, flock, fstat, fstatfs, futimens, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::process::{Uid, fchdir};

use super::place::{PATIENCE, lock, pause};
use crate::{Error, ImageFile, Policy, Stage};

/// The place of the mount in an entry.
const IMAGE: &CStr = c"image";
/// `linux/magic.h`.
const SQUASHFS_MAGIC: u64 = 0x7371_7368;
/// `linux/magic.h`.
const EROFS_MAGIC: u64 = 0xe0f5_e1e2;
/// How many entries one image can have: another one when whoever makes the first does
/// not get on. More than one user may have at all.
const SPARE: u32 = 64;
/// Stands before the place of a copy in the name of an entry.
const COPY_IN: &str = "+";
/// After so long without getting on, whoever makes a copy is not waited for any longer.
const STALLED: Duration = Duration::from_secs(60);

/// Says which file an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    /// Looks through the descriptor that the caller could open.
    pub(super) fn of(image: &ImageFile, stage: Option<Stage>) -> Result<Self, Error> {
        let found = fstat(&image.file).map_err(Error::step("look at", &image.path))?;
        let Self(mut name) = Self::from_stat(&found);
        if let Some(stage) = stage {
            name.extend([COPY_IN, stage.name()]);
        }
        Ok(Self(name))
    }

    /// Returns the size of the file, in bytes.
    fn size(name: &str) -> Option<u64> {
        name.split('-').nth(2)?.parse().ok()
    }

    fn from_stat(found: &Stat) -> Self {
        Self(format!(
            "{:x}-{}-{}-{}.{:09}-{}.{:09}",
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime,
            found.st_mtime_nsec,
            found.st_ctime,
            found.st_ctime_nsec,
        ))
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let spare = (1..SPARE).map(|number| format!("{}~{number}", self.0));
        std::iter::once(self.0.clone()).chain(spare)
    }
}

/// Returns a clone of the mount of an image, and notes the time.
pub(super) fn take(key: &Key) -> Option<OwnedFd> {
    key.names().find_map(|name| Entry::open(&name)?.take())
}

/// What became of a reservation.
pub(super) enum Taken {
    /// Somebody else has mounted the image meanwhile.
    Mounted(OwnedFd),
    /// The image is to be mounted, by nobody else.
    Reserved(Entry),
}

/// Makes an entry for an image and locks it.
pub(super) fn reserve(key: &Key, user: u32, limit: u32) -> Result<Taken, Error> {
    // Whoever makes the first one is waited for, the others are only tried.
    let patience = std::iter::once(PATIENCE).chain(std::iter::repeat(1));
    for (name, patience) in key.names().zip(patience) {
        let entry = make_entry(&name, user, limit)?;
        for _ in 0..patience {
            // Whoever mounts it may be done; then the lock does not matter.
            if let Some(mount) = entry.take() {
                return Ok(Taken::Mounted(mount));
            }
            match flock(&entry.directory, FlockOperation::NonBlockingLockExclusive) {
                // It may have been swept away between opening and locking.
                Ok(()) if entry.is_there() => return Ok(entry.reserved()),
                Ok(()) => break,
                Err(_) => pause(),
            }
        }
    }
    Err(Error::holder("find a free entry for an image")(Errno::BUSY))
}

/// Makes an entry for a copy of an image and locks it; waits while somebody else copies it.
pub(super) fn reserve_copy(
    key: &Key,
    user: u32,
    policy: &Policy,
    stage: Stage,
    image: &Path,
) -> Result<Taken, Error> {
    let limit = stage.limit(policy)?;
    let make = || {
        make_entry_if(&key.0, user, policy.images_per_user, || {
            if has_room(key, stage, limit)? {
                return Ok(());
            }
            Err(Error::NoRoomForCopy {
                image: image.to_owned(),
                stage,
                limit,
            })
        })
    };
    let mut entry = make()?;
    loop {
        if let Some(mount) = entry.take() {
            return Ok(Taken::Mounted(mount));
        }
        match flock(&entry.directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if entry.is_there() => {
                // Others see from now on that it gets on.
                entry.note_use();
                return Ok(entry.reserved());
            }
            // Whoever was copying has failed, or it has been given up.
            Ok(()) => entry = make()?,
            Err(_) if entry.idle() > STALLED => {
                let wait = "wait for another step on this node that copies the image";
                return Err(Error::holder(wait)(Errno::TIMEDOUT));
            }
            Err(_) => pause(),
        }
    }
}

/// Tells whether a copy fits beside those that there are. Asked under the lock of the list.
fn has_room(key: &Key, stage: Stage, limit: u64) -> Result<bool, Error> {
    let ending = format!("{COPY_IN}{stage}");
    let names = entries()?.filter_map(|entry| Some(entry.name.to_str()?.to_owned()));
    let sizes = names.filter(|name| name.ends_with(&ending));
    let used: u64 = sizes.filter_map(|name| Key::size(&name)).sum();
    let wanted = Key::size(&key.0).unwrap_or(u64::MAX);
    Ok(used.saturating_add(wanted) <= limit)
}

/// Making and counting happen under one lock, so that two starts of a user do not both
/// get the last place.
fn make_entry(name: &str, user: u32, limit: u32) -> Result<Entry, Error> {
    make_entry_if(name, user, limit, || Ok(()))
}

fn make_entry_if(
    name: &str,
    user: u32,
    limit: u32,
    is_allowed: impl FnOnce() -> Result<(), Error>,
) -> Result<Entry, Error> {
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    let root = open_directory(c"/").map_err(Error::holder("open the list of images"))?;
    lock(&root);
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    let mine = entries()?
        .filter(|entry| entry.user() == Some(user))
        .count();
    if user != 0 && u32::try_from(mine).is_ok_and(|mine| mine >= limit) {
        return Err(Error::TooManyImages { limit });
    }
    is_allowed()?;
    let failed = || Error::holder("make an entry for an image");
    mkdirat(&root, name, Mode::RWXU).map_err(failed())?;
    let entry = Entry::open(name).ok_or_else(|| failed()(Errno::NOENT))?;
    // Nobody but root comes here; the owner is a note of who needed the image first.
    let owner = Uid::from_raw(user);
    fchown(&entry.directory, Some(owner), None).map_err(failed())?;
    Ok(entry)
}

/// Returns all entries.
pub(super) fn entries() -> Result<impl Iterator<Item = Entry>, Error> {
    let failed = || Error::holder("list the images");
    let root = open_directory(c"/").map_err(failed())?;
    let names = Dir::read_from(&root).map_err(failed())?;
    let names: Vec<CString> = names
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| !name.as_bytes().starts_with(b"."))
        .collect();
    Ok(names
        .into_iter()
        .filter_map(|name| Entry::open(&OsString::from_vec(name.into_bytes()).to_string_lossy())))
}

/// The directory of one image in the holder.
pub(super) struct Entry {
    name: PathBuf,
    directory: OwnedFd,
}

impl Entry {
    /// What is locked may have been filled just before.
    fn reserved(self) -> Taken {
        match self.take() {
            Some(mount) => Taken::Mounted(mount),
            None => Taken::Reserved(self),
        }
    }

    fn open(name: &str) -> Option<Self> {
        let path = PathBuf::from(format!("/{name}"));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, &path, flags, Mode::empty()).ok()?;
        Some(Self {
            name: path,
            directory,
        })
    }

    fn take(&self) -> Option<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
            | OpenTreeFlags::AT_NO_AUTOMOUNT;
        let mount = open_tree(&self.directory, IMAGE, flags).ok()?;
        // Without a mount it is the empty directory that was cloned.
        if !is_image(mount.as_fd()) {
            return None;
        }
        self.note_use();
        Some(mount)
    }

    /// Notes that the image was used now.
    pub(super) fn note_use(&self) {
        let at = |nanoseconds| Timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: at(UTIME_OMIT),
            last_modification: at(UTIME_NOW),
        };
        // Without the note it is given up sooner, no more.
        let _ = futimens(&self.directory, &times);
    }

    /// Tells whether the entry is still the one of its name.
    fn is_there(&self) -> bool {
        let (Ok(opened), Ok(named)) = (
            fstat(&self.directory),
            statat(CWD, &self.name, AtFlags::SYMLINK_NOFOLLOW),
        ) else {
            return false;
        };
        (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    }

    /// Puts the mount of an image in place, and returns a clone of it.
    pub(super) fn fill(&self, mount: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
        let failed = || Error::holder("hold an image");
        match mkdirat(&self.directory, IMAGE, Mode::RWXU) {
            // Left by somebody who was killed here.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(mount, "", &self.directory, IMAGE, whole).map_err(failed())?;
        self.take().ok_or_else(|| failed()(Errno::NOENT))
    }

    /// Removes an entry that came to nothing.
    pub(super) fn give_up(&self) {
        // What cannot be removed is swept away later.
        let _ = unlinkat(&self.directory, IMAGE, AtFlags::REMOVEDIR);
        let _ = unlinkat(CWD, &self.name, AtFlags::REMOVEDIR);
    }

    /// Returns who needed the image first.
    pub(super) fn user(&self) -> Option<u32> {
        fstat(&self.directory).ok().map(|found| found.st_uid)
    }

    /// Tells whether it is for a copy.
    pub(super) fn is_copy(&self) -> bool {
        self.name.to_string_lossy().contains(COPY_IN)
    }

    /// Returns for how long nobody has started with the image.
    pub(super) fn idle(&self) -> Duration {
        let seconds = |found: Stat| u64::try_from(found.st_mtime).unwrap_or_default();
        let used = fstat(&self.directory).map_or(0, seconds);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.unwrap_or_default()
            .saturating_sub(Duration::from_secs(used))
    }

    /// Returns the number of the device that the image is mounted from; none without
    /// a mount.
    pub(super) fn device(&self) -> Option<u64> {
        let mount = openat(
            &self.directory,
            IMAGE,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        if is_image(mount.as_fd()) {
            fstat(&mount).ok().map(|found| found.st_dev)
        } else {
            None
        }
    }

    /// Unmounts and removes, unless somebody is at work on it. Clones of the mount
    /// stay where they are.
    pub(super) fn drop_image(&self) -> bool {
        if flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_err() {
            return false;
        }
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let unmounted = fchdir(&self.directory).and_then(|()| unmount(IMAGE, flags));
        // `EINVAL`: nothing was mounted there.
        if !matches!(unmounted, Ok(()) | Err(Errno::INVAL | Errno::NOENT)) {
            return false;
        }
        self.give_up();
        true
    }
}

fn is_image(mount: BorrowedFd<'_>) -> bool {
    fstatfs(mount)
        .ok()
        .and_then(|found| u64::try_from(found.f_type).ok())
        .is_some_and(|kind| [SQUASHFS_MAGIC, EROFS_MAGIC].contains(&kind))
}

fn open_directory(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}
