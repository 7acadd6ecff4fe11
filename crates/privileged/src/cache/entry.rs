// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The entries of the cache: one for each image that is mounted, or still in use.
//!
//! Everything here happens in the namespace of the cache.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT, chownat, flock, fstat, fstatfs, futimens, mkdirat, openat, readlinkat,
    renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::Uid;

use super::place::{Home, SHORTEST_PATIENCE, TIME_LIMIT, is_named, lock_within, pause};
use crate::image::BlockDevice;
use crate::operations::{self, Binding};
use crate::{Copies, Error, ImageFile, ImageFormat, Verity};

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
/// How many entries one image can have: another one when the maker of the first makes no progress.
/// Far more than users can stop, since each entry counts for the user who made it.
const SPARE: u32 = 1 << 14;
/// The names of entries begin so while they are removed.
const GONE: &str = ".gone-";
/// Stands before the place of a copy in the name of an entry.
const COPY_IN: &str = "+";
/// Stands before the root hash of an image whose content is checked in the name of an entry.
const VERIFIED: &str = "=";
/// After so long without progress, the maker of a copy is not waited for any longer.
const STALLED: Duration = Duration::from_secs(60);

/// Says which file an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    /// Takes what was found through the descriptor that the caller could open.
    pub(super) fn of(found: &Stat, copies: Option<&dyn Copies>, verity: Option<&Verity>) -> Self {
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
        if let Some(verity) = verity {
            name.extend([VERIFIED, verity.root_hash.as_str()]);
        }
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
    /// Another process has mounted the image meanwhile.
    Mounted(OwnedFd),
    /// The image is in use and out of the cache for a moment. It can be mounted from this device.
    InUse(BlockDevice),
    /// This process mounts the image.
    Reserved(Entry),
}

/// From which device an image is mounted, as an entry notes it.
pub(super) struct Noted {
    /// The number of the loop device of the image.
    pub(super) number: u32,
    /// What it was bound as. A device on which the content is checked has this name.
    pub(super) binding: Binding,
    /// The number of the loop device of the hash tree, if the content is checked.
    pub(super) tree: Option<u32>,
}

impl Noted {
    /// Returns the numbers of the loop devices.
    pub(super) fn loop_devices(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.number).chain(self.tree)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        Some(Self {
            number: parts.next()?.parse().ok()?,
            binding: Binding::from_text(parts.next()?),
            tree: parts.next().map(str::parse).transpose().ok()?,
        })
    }
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.binding)?;
        self.tree.map_or(Ok(()), |tree| write!(f, " {tree}"))
    }
}

/// The device of an entry.
pub(super) enum Device {
    /// None is noted.
    Missing,
    /// It is bound no more, so no one uses the image.
    Unbound,
    /// It is bound as it was.
    Bound(BlockDevice),
    /// The kernel did not answer.
    Unknown(std::io::Error),
}

/// Returns a clone of the mount of an image, and notes the time.
pub(super) fn take(key: &Key, image: &ImageFile) -> Result<Option<OwnedFd>, Error> {
    if let Some(entry) = Entry::open(&key.0)
        && let Some(mount) = entry.take(image)?
    {
        return Ok(Some(mount));
    }
    let spare = format!("{}~", key.0);
    for name in names()?.iter().filter(|name| name.starts_with(&spare)) {
        if let Some(entry) = Entry::open(name)
            && let Some(mount) = entry.take(image)?
        {
            return Ok(Some(mount));
        }
    }
    Ok(None)
}

/// Makes an entry for an image and locks it. It waits for starts of the same user that mount the
/// image, and hardly for those of others, who may have stopped them: then there are spare entries.
pub(super) fn reserve(
    key: &Key,
    user: u32,
    limit: u32,
    image: &ImageFile,
    home: &Home,
) -> Result<Taken, Error> {
    let begin = Instant::now();
    for name in key.names() {
        loop {
            let entry = make_entry(&name, user, limit, home)?;
            // The process that mounts it may be done; then the lock does not matter.
            if let Some(mount) = entry.take(image)? {
                return Ok(Taken::Mounted(mount));
            }
            if entry.try_lock() {
                match entry.reserved(image, home)? {
                    Some(taken) => return Ok(taken),
                    // It is no entry any more.
                    None => continue,
                }
            }
            let time_limit = match entry.device(home) {
                Device::Bound(device) => return Ok(Taken::InUse(device)),
                // A start is about to give it up, and may have been stopped.
                Device::Unbound => SHORTEST_PATIENCE,
                _ if entry.user() == Some(user) => TIME_LIMIT,
                _ => SHORTEST_PATIENCE,
            };
            // Over all entries: each of them may have a start that was stopped.
            if begin.elapsed() > time_limit {
                break;
            }
            pause();
        }
    }
    Err(Error::cache("find a free entry for an image")(Errno::BUSY))
}

/// Makes an entry for a copy of an image and locks it; waits while another process copies it.
pub(super) fn reserve_copy(
    key: &Key,
    user: u32,
    limit: u32,
    copies: &dyn Copies,
    image: &ImageFile,
    home: &Home,
) -> Result<Taken, Error> {
    let make = || {
        if let Some(entry) = Entry::open(&key.0) {
            return Ok(entry);
        }
        // Until the entry is there, which counts from then on.
        let lock = directory_for_lock(COPIES)?;
        if !lock_within(&lock, TIME_LIMIT) {
            let wait = "wait for others on this node that copy images";
            return Err(Error::cache(wait)(Errno::TIMEDOUT));
        }
        if !has_space(key, copies)? {
            return Err(Error::NoSpaceForCopy {
                image: image.path.clone(),
                place: copies.place(),
                limit: copies.limit(),
            });
        }
        make_entry(&key.0, user, limit, home)
    };
    let mut entry = make()?;
    loop {
        if let Some(mount) = entry.take(image)? {
            return Ok(Taken::Mounted(mount));
        }
        if entry.try_lock() {
            // Others see from now on that it gets on.
            entry.note_use();
            if let Some(taken) = entry.reserved(image, home)? {
                return Ok(taken);
            }
            // The copying process has failed, or it has been given up.
            entry = make()?;
        } else if entry.idle() > STALLED {
            let wait = "wait for another step on this node that copies the image";
            return Err(Error::cache(wait)(Errno::TIMEDOUT));
        } else {
            pause();
        }
    }
}

/// Tells whether a copy fits beside those that there are. To be called under the lock of copies.
fn has_space(key: &Key, copies: &dyn Copies) -> Result<bool, Error> {
    let ending = format!("{COPY_IN}{}", copies.name());
    let sizes = names()?.into_iter().filter(|name| name.ends_with(&ending));
    let used: u64 = sizes.filter_map(|name| Key::size(&name)).sum();
    let wanted = Key::size(&key.0).unwrap_or(u64::MAX);
    Ok(used.saturating_add(wanted) <= copies.limit())
}

/// Making and counting happen under the lock of the user, so that two of their starts do not
/// both get the last place.
fn make_entry(name: &str, user: u32, limit: u32, home: &Home) -> Result<Entry, Error> {
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    let failed = || Error::cache("make an entry for an image");
    let _lock = lock_of(user)?;
    if let Some(entry) = Entry::open(name) {
        return Ok(entry);
    }
    if space_of(user, limit, home)? == 0 {
        return Err(Error::TooManyImages { limit });
    }
    // No one but root comes here; the owner is a note of who needed the image first. It must be
    // there when the entry is: by it others decide whether they wait.
    let new = format!("/.new-{user}");
    make_directory(&new)?;
    let owner = Uid::from_raw(user);
    chownat(CWD, &new, Some(owner), None, AtFlags::SYMLINK_NOFOLLOW).map_err(failed())?;
    match renameat_with(CWD, &new, CWD, format!("/{name}"), RenameFlags::NOREPLACE) {
        // Another process was faster.
        Ok(()) | Err(Errno::EXIST) => {}
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
/// [`Error::OtherStart`] if another start holds the lock for longer than [`TIME_LIMIT`].
pub(super) fn lock_of(user: u32) -> Result<OwnedFd, Error> {
    lock_of_within(user, TIME_LIMIT)?.ok_or(Error::OtherStart)
}

/// Takes the same lock within a time; `None` if another start holds it for longer.
pub(super) fn lock_of_within(user: u32, time_limit: Duration) -> Result<Option<OwnedFd>, Error> {
    make_directory(USERS)?;
    let lock = directory_for_lock(&format!("{USERS}/{user}"))?;
    Ok(lock_within(&lock, time_limit).then_some(lock))
}

/// Returns how many images more a user may have. To be called under the lock of the user.
pub(super) fn space_of(user: u32, limit: u32, home: &Home) -> Result<usize, Error> {
    if user == 0 {
        return Ok(usize::MAX);
    }
    let counted = entries()?.filter(|entry| entry.counts_for(user, home)).count();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(limit.saturating_sub(counted))
}

fn make_directory(path: &str) -> Result<(), Error> {
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::cache("make a directory in the cache of images")(errno)),
    }
}

fn directory_for_lock(path: &str) -> Result<OwnedFd, Error> {
    make_directory(path)?;
    open_directory(path).map_err(Error::cache("open a lock of the cache of images"))
}

/// Removes what is left of entries whose removal did not come to its end.
pub(super) fn remove_remains() -> Result<(), Error> {
    for name in all_names()? {
        if name.starts_with(GONE)
            && let Some(entry) = Entry::open(&name)
        {
            entry.remove_as(&entry.name);
        }
    }
    Ok(())
}

/// Returns the names of all entries.
pub(super) fn names() -> Result<Vec<String>, Error> {
    let mut names = all_names()?;
    names.retain(|name| !name.starts_with('.'));
    Ok(names)
}

fn all_names() -> Result<Vec<String>, Error> {
    let failed = || Error::cache("list the images");
    let root = open_directory("/").map_err(failed())?;
    let names = Dir::read_from(&root).map_err(failed())?;
    let names = names.filter_map(Result::ok);
    let names = names.map(|entry| CString::from(entry.file_name()).into_string());
    Ok(names.filter_map(Result::ok).collect())
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
    /// What becomes of an entry that was just locked; `None` if it has been given up. It may have
    /// been filled or given up before. If no one uses its image any more it is made anew: that
    /// counts.
    fn reserved(self, image: &ImageFile, home: &Home) -> Result<Option<Taken>, Error> {
        if !self.is_there() {
            return Ok(None);
        }
        if let Some(mount) = self.take(image)? {
            return Ok(Some(Taken::Mounted(mount)));
        }
        self.note_back();
        if matches!(self.device(home), Device::Unbound) {
            self.give_up();
            return Ok(None);
        }
        Ok(Some(Taken::Reserved(self)))
    }

    pub(super) fn open(name: &str) -> Option<Self> {
        let path = PathBuf::from(format!("/{name}"));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, &path, flags, Mode::empty()).ok()?;
        Some(Self { name: path, directory })
    }

    /// Takes the lock if it is free.
    pub(super) fn try_lock(&self) -> bool {
        flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Returns a clone of the mount, if the image is mounted.
    ///
    /// # Errors
    ///
    /// [`Error::Image`] if the image is of another format than the request names.
    pub(super) fn take(&self, image: &ImageFile) -> Result<Option<OwnedFd>, Error> {
        let Ok(mount) = operations::clone_at(self.directory.as_fd(), IMAGE, false) else {
            return Ok(None);
        };
        match format_of(mount.as_fd()) {
            Some(format) if format == image.format => {
                self.note_use();
                Ok(Some(mount))
            }
            Some(_) => Err(Error::Image {
                path: image.path.clone(),
                format: image.format.name(),
                log: None,
                source: Errno::INVAL.into(),
            }),
            // Without a mount it is the empty directory that was cloned.
            None => Ok(None),
        }
    }

    /// Notes that the image was used now.
    pub(super) fn note_use(&self) {
        // Without the note it is given up sooner, no more.
        let _ = touch(&self.directory);
    }

    /// Tells whether the entry is still the one of its name.
    pub(super) fn is_there(&self) -> bool {
        is_named(&self.directory, CWD, &self.name)
    }

    /// Notes from which device the image is mounted, or will be: others need not bind one, too.
    pub(super) fn note_device(&self, noted: &Noted) -> Result<(), Error> {
        let _ = unlinkat(&self.directory, DEVICE, AtFlags::empty());
        symlinkat(noted.to_string(), &self.directory, DEVICE)
            .map_err(Error::cache("note the device of an image"))
    }

    /// Puts the mount of an image in place.
    pub(super) fn fill(&self, mount: BorrowedFd<'_>) -> Result<(), Error> {
        let failed = || Error::cache("keep an image");
        match mkdirat(&self.directory, IMAGE, Mode::RWXU) {
            // Left by a process that was killed here.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        operations::attach_in(mount, self.directory.as_fd(), IMAGE).map_err(failed())
    }

    /// Removes an entry that came to nothing, or whose image no one uses.
    pub(super) fn give_up(&self) {
        // First out of the way: a process that stops here must not keep others from its name.
        let number = fstat(&self.directory).map_or(0, |found| found.st_ino);
        let gone = PathBuf::from(format!("/{GONE}{number}"));
        let is_gone = renameat_with(CWD, &self.name, CWD, &gone, RenameFlags::NOREPLACE).is_ok();
        self.remove_as(if is_gone { &gone } else { &self.name });
    }

    /// Removes the directory, which has this name, as far as that is possible.
    fn remove_as(&self, name: &Path) {
        let _ = unlinkat(&self.directory, DEVICE, AtFlags::empty());
        let _ = unlinkat(&self.directory, OUT, AtFlags::empty());
        let _ = unlinkat(&self.directory, IMAGE, AtFlags::REMOVEDIR);
        let _ = unlinkat(CWD, name, AtFlags::REMOVEDIR);
    }

    /// Returns who needed the image first.
    pub(super) fn user(&self) -> Option<u32> {
        fstat(&self.directory).ok().map(|found| found.st_uid)
    }

    /// Returns whether the entry counts for this user: who needed the image first, and who has it
    /// out of the cache. If the latter has taken out an unused image it counts for that
    /// user alone: a start can be stopped there, and must not use up the limits of others.
    pub(super) fn counts_for(&self, user: u32, home: &Home) -> bool {
        let is_own = self.user() == Some(user);
        let out = readlinkat(&self.directory, OUT, Vec::new()).ok();
        let Some(out) = out.and_then(|text| text.to_str().ok()?.parse().ok()) else {
            return is_own;
        };
        // Who has it out has it locked; others were killed.
        if self.try_lock() {
            self.note_back();
            return is_own;
        }
        user == out || is_own && !matches!(self.device(home), Device::Unbound)
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

    /// Returns for how long the image has not been started.
    pub(super) fn idle(&self) -> Duration {
        fstat(&self.directory).map_or(Duration::MAX, |found| age(&found))
    }

    /// Looks for the device that the image was mounted from.
    pub(super) fn device(&self, home: &Home) -> Device {
        match self.noted_device().map(|noted| home.find_device(&noted)) {
            None => Device::Missing,
            // What checks the content is made only now.
            Some(Ok(None)) if self.has_bound_loop_device(home) => Device::Missing,
            Some(Ok(None)) => Device::Unbound,
            Some(Ok(Some(device))) => Device::Bound(device),
            Some(Err(error)) => Device::Unknown(error),
        }
    }

    fn has_bound_loop_device(&self, home: &Home) -> bool {
        let noted = self.noted_device().map(|noted| Noted { tree: None, ..noted });
        noted.is_some_and(|noted| matches!(home.find_device(&noted), Ok(Some(_))))
    }

    /// Returns which device is noted.
    pub(super) fn noted_device(&self) -> Option<Noted> {
        let text = readlinkat(&self.directory, DEVICE, Vec::new()).ok()?;
        Noted::from_text(text.to_str().ok()?)
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
    let at = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
    futimens(directory, &times)
}

fn format_of(mount: BorrowedFd<'_>) -> Option<ImageFormat> {
    let kind = u64::try_from(fstatfs(mount).ok()?.f_type).ok()?;
    [ImageFormat::Squashfs, ImageFormat::Erofs].into_iter().find(|format| format.magic() == kind)
}

pub(super) fn open_directory(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}
