// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The entries of the cache: one for each image that is mounted, or still in use.
//!
//! Everything here happens in the namespace of the cache.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT, chownat, flock, fstat, fstatfs, futimens, mkdirat, openat, readlinkat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::Uid;

use super::place::{PATIENCE, SHORTEST_PATIENCE, lock_within, pause};
use crate::operations::{self, Binding};
use crate::{Copies, Error, ImageFile, ImageFormat};

/// The place of the mount in an entry.
const IMAGE: &CStr = c"image";
/// The link that names the loop device in an entry.
const DEVICE: &CStr = c"device";
/// In an entry, the link that names the user whose start took the image out of the cache.
const OUT: &CStr = c"out";
/// The directory of the locks of users.
const USERS: &str = "/.users";
/// The lock of those who copy.
const COPIES: &str = "/.copies";
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
    /// Takes what was found through the descriptor that the caller could open.
    pub(super) fn of(found: &Stat, copies: Option<&dyn Copies>) -> Self {
        let mut name = format!(
            "{:x}-{}-{}-{}.{:09}-{}.{:09}",
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime,
            found.st_mtime_nsec,
            found.st_ctime,
            found.st_ctime_nsec,
        );
        if let Some(copies) = copies {
            name.extend([COPY_IN, copies.name()]);
        }
        Self(name)
    }

    /// Returns the size of the file, in bytes.
    fn size(name: &str) -> Option<u64> {
        name.split('-').nth(2)?.parse().ok()
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let spare = (1..SPARE).map(|number| format!("{}~{number}", self.0));
        std::iter::once(self.0.clone()).chain(spare)
    }
}

/// What became of a reservation.
pub(super) enum Taken {
    /// Somebody else has mounted the image meanwhile.
    Mounted(OwnedFd),
    /// It is out of the cache for a moment, and its loop device is this one.
    Bound(u32, Binding),
    /// The image is to be mounted, by nobody else.
    Reserved(Entry),
}

/// Returns a clone of the mount of an image, and notes the time.
pub(super) fn take(key: &Key, image: &ImageFile) -> Result<Option<OwnedFd>, Error> {
    // Spare entries are made one after the other.
    let spare = key.names().skip(1).map_while(|name| Entry::open(&name));
    for entry in Entry::open(&key.0).into_iter().chain(spare) {
        if let Some(Taken::Mounted(mount)) = entry.take(image)? {
            return Ok(Some(mount));
        }
    }
    Ok(None)
}

/// Makes an entry for an image and locks it. Who of the same user mounts it is waited for;
/// for others who do not get on there are spare entries, also where their device is `gone`.
pub(super) fn reserve(
    key: &Key,
    user: u32,
    limit: u32,
    image: &ImageFile,
    gone: &[Binding],
) -> Result<Taken, Error> {
    for name in key.names() {
        let entry = make_entry(&name, user, limit)?;
        // Where a device is gone it may be another user's start that gives the image up.
        let patience = if entry.counts_for(user) && gone.is_empty() {
            PATIENCE
        } else {
            SHORTEST_PATIENCE
        };
        let begin = Instant::now();
        loop {
            // Whoever mounts it may be done; then the lock does not matter.
            let bound = match entry.take(image)? {
                Some(Taken::Mounted(mount)) => return Ok(Taken::Mounted(mount)),
                bound => bound,
            };
            if entry.try_lock() {
                // It may have been swept away between opening and locking.
                if entry.is_there() {
                    return entry.reserved(image);
                }
                break;
            }
            if let Some(Taken::Bound(number, binding)) = bound
                && !gone.contains(&binding)
            {
                return Ok(Taken::Bound(number, binding));
            }
            if begin.elapsed() > patience {
                break;
            }
            pause();
        }
    }
    Err(Error::cache("find a free entry for an image")(Errno::BUSY))
}

/// Makes an entry for a copy of an image and locks it; waits while somebody else copies it.
pub(super) fn reserve_copy(
    key: &Key,
    user: u32,
    limit: u32,
    copies: &dyn Copies,
    image: &ImageFile,
) -> Result<Taken, Error> {
    let make = || {
        if let Some(entry) = Entry::open(&key.0) {
            return Ok(entry);
        }
        // Until the entry is there, which counts from then on.
        let lock = directory_for_lock(COPIES)?;
        if !lock_within(&lock, PATIENCE) {
            let wait = "wait for others on this node that copy images";
            return Err(Error::cache(wait)(Errno::TIMEDOUT));
        }
        if !has_room(key, copies)? {
            return Err(Error::NoRoomForCopy {
                image: image.path.clone(),
                place: copies.place(),
                limit: copies.limit(),
            });
        }
        make_entry(&key.0, user, limit)
    };
    let mut entry = make()?;
    loop {
        if let Some(Taken::Mounted(mount)) = entry.take(image)? {
            return Ok(Taken::Mounted(mount));
        }
        if entry.try_lock() {
            if entry.is_there() {
                // Others see from now on that it gets on.
                entry.note_use();
                return entry.reserved(image);
            }
            // Whoever was copying has failed, or it has been given up.
            entry = make()?;
        } else if entry.idle() > STALLED {
            let wait = "wait for another step on this node that copies the image";
            return Err(Error::cache(wait)(Errno::TIMEDOUT));
        } else {
            pause();
        }
    }
}

/// Tells whether a copy fits beside those that there are. Asked under the lock of copies.
fn has_room(key: &Key, copies: &dyn Copies) -> Result<bool, Error> {
    let ending = format!("{COPY_IN}{}", copies.name());
    let sizes = names()?.into_iter().filter(|name| name.ends_with(&ending));
    let used: u64 = sizes.filter_map(|name| Key::size(&name)).sum();
    let wanted = Key::size(&key.0).unwrap_or(u64::MAX);
    Ok(used.saturating_add(wanted) <= copies.limit())
}

/// Making and counting happen under the lock of the user, so that two of their starts do not
/// both get the last place.
fn make_entry(name: &str, user: u32, limit: u32) -> Result<Entry, Error> {
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    let failed = || Error::cache("make an entry for an image");
    let _lock = lock_of(user)?;
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    if room_of(user, limit)? == 0 {
        return Err(Error::TooManyImages { limit });
    }
    // Nobody but root comes here; the owner is a note of who needed the image first. It must be
    // there when the entry is: by it others decide whether they wait.
    let new = format!("/.new-{user}");
    make_directory(&new)?;
    let owner = Uid::from_raw(user);
    chownat(CWD, &new, Some(owner), None, AtFlags::SYMLINK_NOFOLLOW).map_err(failed())?;
    match renameat_with(CWD, &new, CWD, format!("/{name}"), RenameFlags::NOREPLACE) {
        // Somebody else was faster, for an entry of the same name or for one of this user.
        Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
        Err(errno) => return Err(failed()(errno)),
    }
    Entry::open(name).ok_or_else(|| failed()(Errno::NOENT))
}

/// Takes the lock under which a user's images are counted, so that no start of that user sees a
/// number that another one is about to change. A start without the lock must not count: a user
/// can stop any number of starts between counting and mounting.
///
/// # Errors
///
/// [`Error::OtherStart`] if another start holds the lock for longer than [`PATIENCE`].
pub(super) fn lock_of(user: u32) -> Result<OwnedFd, Error> {
    lock_of_within(user, PATIENCE)?.ok_or(Error::OtherStart)
}

/// Takes the same lock within a time; `None` if another start holds it for longer.
pub(super) fn lock_of_within(user: u32, patience: Duration) -> Result<Option<OwnedFd>, Error> {
    make_directory(USERS)?;
    let lock = directory_for_lock(&format!("{USERS}/{user}"))?;
    Ok(lock_within(&lock, patience).then_some(lock))
}

/// Returns how many images more a user may have. Asked under the lock of the user.
pub(super) fn room_of(user: u32, limit: u32) -> Result<usize, Error> {
    if user == 0 {
        return Ok(usize::MAX);
    }
    let counted = entries()?.filter(|entry| entry.counts_for(user)).count();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(limit.saturating_sub(counted))
}

fn make_directory(path: &str) -> Result<(), Error> {
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::cache("make a directory in the cache of images")(
            errno,
        )),
    }
}

fn directory_for_lock(path: &str) -> Result<OwnedFd, Error> {
    make_directory(path)?;
    open_directory(path).map_err(Error::cache("open a lock of the cache of images"))
}

/// Returns the names of all entries.
pub(super) fn names() -> Result<Vec<String>, Error> {
    let failed = || Error::cache("list the images");
    let root = open_directory("/").map_err(failed())?;
    let names = Dir::read_from(&root).map_err(failed())?;
    let names = names.filter_map(Result::ok);
    let names = names.map(|entry| CString::from(entry.file_name()).into_string());
    Ok(names
        .filter_map(Result::ok)
        .filter(|name| !name.starts_with('.'))
        .collect())
}

/// Returns all entries.
pub(super) fn entries() -> Result<impl Iterator<Item = Entry>, Error> {
    Ok(names()?.into_iter().filter_map(|name| Entry::open(&name)))
}

/// The directory of one image in the cache.
pub(super) struct Entry {
    name: PathBuf,
    directory: OwnedFd,
}

impl Entry {
    /// What is locked may have been filled just before.
    fn reserved(self, image: &ImageFile) -> Result<Taken, Error> {
        match self.take(image)? {
            Some(Taken::Mounted(mount)) => Ok(Taken::Mounted(mount)),
            _ => Ok(Taken::Reserved(self)),
        }
    }

    pub(super) fn open(name: &str) -> Option<Self> {
        let path = PathBuf::from(format!("/{name}"));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, &path, flags, Mode::empty()).ok()?;
        Some(Self {
            name: path,
            directory,
        })
    }

    /// Takes the lock, if nobody has it.
    pub(super) fn try_lock(&self) -> bool {
        flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Returns a clone of the mount, or else the device of an image that is out of the cache.
    ///
    /// # Errors
    ///
    /// [`Error::Image`] if the image is of another format than was said.
    pub(super) fn take(&self, image: &ImageFile) -> Result<Option<Taken>, Error> {
        let Ok(mount) = operations::clone_at(self.directory.as_fd(), IMAGE, false) else {
            return Ok(None);
        };
        match format_of(mount.as_fd()) {
            Some(format) if format == image.format => {
                self.note_use();
                Ok(Some(Taken::Mounted(mount)))
            }
            Some(_) => Err(Error::Image {
                path: image.path.clone(),
                format: image.format.name(),
                log: None,
                source: Errno::INVAL.into(),
            }),
            // Without a mount it is the empty directory that was cloned.
            None => Ok(self
                .device()
                .map(|(number, binding)| Taken::Bound(number, binding))),
        }
    }

    /// Notes that the image was used now.
    pub(super) fn note_use(&self) {
        // Without the note it is given up sooner, no more.
        let _ = touch(&self.directory);
    }

    /// Tells whether the entry is still the one of its name.
    pub(super) fn is_there(&self) -> bool {
        let (Ok(opened), Ok(named)) = (
            fstat(&self.directory),
            statat(CWD, &self.name, AtFlags::SYMLINK_NOFOLLOW),
        ) else {
            return false;
        };
        (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    }

    /// Notes from which device the image is mounted, or will be: others need not bind one, too.
    pub(super) fn note_device(&self, number: u32, binding: &Binding) -> Result<(), Error> {
        let _ = unlinkat(&self.directory, DEVICE, AtFlags::empty());
        symlinkat(format!("{number} {binding}"), &self.directory, DEVICE)
            .map_err(Error::cache("note the device of an image"))
    }

    /// Puts the mount of an image in place.
    pub(super) fn fill(&self, mount: BorrowedFd<'_>) -> Result<(), Error> {
        let failed = || Error::cache("keep an image");
        match mkdirat(&self.directory, IMAGE, Mode::RWXU) {
            // Left by somebody who was killed here.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        operations::attach_in(mount, self.directory.as_fd(), IMAGE).map_err(failed())
    }

    /// Removes an entry that came to nothing, or whose image nobody uses.
    pub(super) fn give_up(&self) {
        // First out of the way: whoever stops here must not keep others from its name.
        let number = fstat(&self.directory).map_or(0, |found| found.st_ino);
        let gone = PathBuf::from(format!("/.gone-{number}"));
        let is_gone = renameat_with(CWD, &self.name, CWD, &gone, RenameFlags::NOREPLACE).is_ok();
        let name = if is_gone { &gone } else { &self.name };
        // What cannot be removed is tried again later, if it has its name.
        let _ = unlinkat(&self.directory, DEVICE, AtFlags::empty());
        let _ = unlinkat(&self.directory, OUT, AtFlags::empty());
        let _ = unlinkat(&self.directory, IMAGE, AtFlags::REMOVEDIR);
        let _ = unlinkat(CWD, name, AtFlags::REMOVEDIR);
    }

    /// Returns who needed the image first.
    pub(super) fn user(&self) -> Option<u32> {
        fstat(&self.directory).ok().map(|found| found.st_uid)
    }

    /// Returns whether the entry counts for this user. An image counts for the user who needed it
    /// first. While a start has it out of the cache it counts for the user of that start, who can
    /// stop it there, and so cannot use up the limits of others.
    pub(super) fn counts_for(&self, user: u32) -> bool {
        let out = readlinkat(&self.directory, OUT, Vec::new()).ok();
        let out = out.and_then(|text| text.to_str().ok()?.parse().ok());
        out.or_else(|| self.user()) == Some(user)
    }

    /// Takes the image out of the cache for a user, unless that cannot be noted. Returns whether
    /// it did. Clones of the mount stay where they are.
    pub(super) fn take_out(&self, user: u32) -> bool {
        self.note_back();
        let is_noted = symlinkat(user.to_string(), &self.directory, OUT).is_ok();
        if is_noted {
            // Where there is no mount there is nothing to take away.
            let _ = operations::detach(self.directory.as_fd(), IMAGE);
        }
        is_noted
    }

    /// Removes the note of who took the image out.
    pub(super) fn note_back(&self) {
        let _ = unlinkat(&self.directory, OUT, AtFlags::empty());
    }

    /// Tells whether it is for a copy.
    pub(super) fn is_copy(&self) -> bool {
        self.name.to_string_lossy().contains(COPY_IN)
    }

    /// Returns for how long nobody has started with the image.
    pub(super) fn idle(&self) -> Duration {
        fstat(&self.directory).map_or(Duration::MAX, |found| age(&found))
    }

    /// Returns the loop device that the image was mounted from.
    pub(super) fn device(&self) -> Option<(u32, Binding)> {
        let text = readlinkat(&self.directory, DEVICE, Vec::new()).ok()?;
        let (number, binding) = text.to_str().ok()?.split_once(' ')?;
        Some((number.parse().ok()?, Binding::from_text(binding)))
    }

    /// Returns what is mounted in the entry.
    pub(super) fn format(&self) -> Option<ImageFormat> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = openat(&self.directory, IMAGE, flags, Mode::empty()).ok()?;
        format_of(mount.as_fd())
    }
}

/// Returns how long ago a directory was last touched.
pub(super) fn age(found: &Stat) -> Duration {
    let touched = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or_default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().saturating_sub(touched)
}

/// Sets the time of modification to now.
pub(super) fn touch(directory: impl AsFd) -> Result<(), Errno> {
    let at = |nanoseconds| Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: at(UTIME_OMIT),
        last_modification: at(UTIME_NOW),
    };
    futimens(directory, &times)
}

fn format_of(mount: BorrowedFd<'_>) -> Option<ImageFormat> {
    let kind = u64::try_from(fstatfs(mount).ok()?.f_type).ok()?;
    [ImageFormat::Squashfs, ImageFormat::Erofs]
        .into_iter()
        .find(|format| format.magic() == kind)
}

pub(super) fn open_directory(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}
