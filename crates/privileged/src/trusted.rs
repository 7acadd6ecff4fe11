// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening what only the administrator can have put in place.
//!
//! Every directory on the way must belong to root and be closed to writing for all
//! others, and no link is followed. Then no one else can exchange what a path names,
//! neither before nor after it is looked at.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, openat};
use rustix::io::Errno;

use crate::Error;

/// `linux/magic.h`: file systems whose contents a user may serve.
const FUSE_MAGIC: u64 = 0x6573_5546;
/// What others than the owner may do: write.
const OTHERS_WRITE: u32 = 0o022;

/// Opens a directory as a place, by its absolute path.
///
/// # Errors
///
/// [`Error::Untrusted`] if others than root could change what the path names, [`Error::Step`] if
/// it cannot be opened.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Error> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(untrusted(path, "is not an absolute path"));
    }
    let root = openat(CWD, "/", place(), Mode::empty()).map_err(Error::step("open", "/"))?;
    check_owner(root.as_fd(), path)?;
    components.try_fold(root, |parent, component| match component {
        Component::Normal(name) => open_below(parent.as_fd(), name, path),
        _ => Err(untrusted(path, "is not written out in full")),
    })
}

/// Opens a directory in a trusted one. `path` is for messages.
pub(crate) fn open_below(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
) -> Result<OwnedFd, Error> {
    let directory = openat(parent, name, place(), Mode::empty()).map_err(|errno| match errno {
        // The kernel's answer to a link that may not be followed.
        Errno::NOTDIR | Errno::LOOP => untrusted(path, "is no directory, or a link leads to it"),
        errno => Error::step("open", path)(errno),
    })?;
    check_owner(directory.as_fd(), path)?;
    Ok(directory)
}

fn place() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
///
/// [`Error::Untrusted`] if others than root could change it, [`Error::Step`] if it cannot be
/// read.
pub fn read_file(path: &Path, limit: u64) -> Result<String, Error> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(untrusted(path, "is no file"));
    };
    let directory = open_directory(parent)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&directory, name, flags, Mode::empty()).map_err(Error::step("open", path))?;
    let found = check_owner(file.as_fd(), path)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(untrusted(path, "is no plain file"));
    }
    let failed = |source| Error::Step { what: "read", path: path.to_owned(), source };
    let mut text = String::new();
    File::from(file).take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= limit) {
        Ok(text)
    } else {
        Err(untrusted(path, "is too large"))
    }
}

/// Checks that something belongs to root and that no one else can write to it.
pub(crate) fn check_owner(file: BorrowedFd<'_>, path: &Path) -> Result<Stat, Error> {
    let found = fstat(file).map_err(Error::step("look at", path))?;
    if found.st_uid != 0 {
        return Err(untrusted(path, "or a directory above it does not belong to root"));
    }
    if found.st_mode & OTHERS_WRITE != 0 {
        return Err(untrusted(
            path,
            "or a directory above it can be written to by others than root",
        ));
    }
    // There it is the server, a process of some user, that says to whom a file belongs.
    if is_on_fuse(file).map_err(Error::step("look at", path))? {
        return Err(untrusted(path, "or a directory above it is on a FUSE file system"));
    }
    Ok(found)
}

/// Tells whether a process of some user may be the one that serves a file.
fn is_on_fuse(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let system = fstatfs(file)?;
    Ok(u64::try_from(system.f_type).is_ok_and(|kind| kind == FUSE_MAGIC))
}

fn untrusted(path: &Path, reason: &'static str) -> Error {
    Error::Untrusted { path: path.to_owned(), reason }
}
