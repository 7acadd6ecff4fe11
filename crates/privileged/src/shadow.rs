// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount points that do not exist on the host.
//!
//! A directory cannot be made where the user may not write, nor should a mount
//! leave one behind. So the directory that would hold it is *shadowed*: a file
//! system in memory is put in its place, with every entry of the original bound
//! at the same name, symbolic links copied as links, and the missing directory
//! added. For `/` this makes a private root.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat, symlinkat};
use rustix::io::Errno;

use crate::{Error, operations};

/// The size, in bytes, beyond which nothing more of a text file is taken over.
const MAX_EXTENDED: u64 = 16 << 20;
/// What a text file with more lines is called in memory.
const EXTENDED: &str = "file";

/// What is expected to stand at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

/// The file systems in which what is missing is made.
#[derive(Debug, Default)]
pub struct Shadows {
    /// Device numbers of file systems in which directories may be made.
    own: Vec<u64>,
    /// Shadowed directories; they become read-only in the end.
    shadowed: Vec<PathBuf>,
}

impl Shadows {
    /// Makes sure that something can be mounted at `target`.
    pub fn ensure(&mut self, target: &Path, kind: Kind) -> Result<(), Error> {
        match fs::metadata(target) {
            Ok(found) if found.is_dir() == (kind == Kind::Directory) => return Ok(()),
            Ok(_) => return Err(wrong_kind(target, kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::MountPoint { path: target.to_owned(), source });
            }
        }
        let parent = deepest_existing(target)?;
        if !self.is_own(&parent) {
            self.shadow(&parent)?;
        }
        if target.is_symlink() {
            // It leads nowhere, and what is to be mounted is meant for its name.
            fs::remove_file(target)
                .map_err(|source| Error::MountPoint { path: target.to_owned(), source })?;
        }
        make(target, kind).map_err(|source| Error::MountPoint { path: target.to_owned(), source })
    }

    /// Puts a file in memory in the place of one, with these lines and what is in that.
    pub fn extend(&mut self, path: &Path, lines: &str) -> Result<(), Error> {
        self.ensure(path, Kind::File)?;
        let failed = |what| move |source| Error::Step { what, path: path.to_owned(), source };
        let mut text = lines.as_bytes().to_vec();
        // Anyone who made the image may have put a fifo there, for which others would wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let original =
            openat(CWD, path, flags, Mode::empty()).map_err(Error::step("open", path))?;
        File::from(original).take(MAX_EXTENDED).read_to_end(&mut text).map_err(failed("read"))?;
        let cover = operations::memory("0755", None)
            .map_err(Error::step("make a file system in memory for", path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = openat(&cover, EXTENDED, flags, mode).map_err(Error::step("make", path))?;
        let mut file = File::from(file);
        file.write_all(&text)
            .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
            .map_err(failed("write"))?;
        // Before Linux 6.15 the kernel clones nothing of a file system that is attached nowhere.
        let place = scratch()?;
        operations::attach(&cover, &place)?;
        let clone = clone_tree(&cover, OsStr::new(EXTENDED));
        operations::detach(CWD, &place).map_err(Error::step("uncover", &place))?;
        operations::attach(&clone?, path)?;
        operations::make_read_only(path)
    }

    /// Makes what is missing in the file system of this directory itself: it is written to
    /// anyhow. A shadow, which is read-only, would take that away from the directory.
    pub fn make_in(&mut self, directory: &Path) -> Result<(), Error> {
        self.remember(directory)
    }

    /// Covers a directory with an empty one in memory.
    pub fn hide(&mut self, directory: &Path) -> Result<(), Error> {
        let cover = operations::memory("0755", None)
            .map_err(Error::step("make a file system in memory for", directory))?;
        operations::attach(&cover, directory)?;
        self.remember(directory)
    }

    /// Makes the shadowed directories read-only: what is written beside the
    /// mount points would be lost without a message.
    pub fn seal(&self) -> Result<(), Error> {
        for directory in &self.shadowed {
            operations::seal(directory)?;
        }
        Ok(())
    }

    fn remember(&mut self, directory: &Path) -> Result<(), Error> {
        let found = fs::metadata(directory)
            .map_err(|source| Error::MountPoint { path: directory.to_owned(), source })?;
        self.own.push(found.dev());
        Ok(())
    }

    fn is_own(&self, directory: &Path) -> bool {
        fs::metadata(directory).is_ok_and(|found| self.own.contains(&found.dev()))
    }

    fn shadow(&mut self, directory: &Path) -> Result<(), Error> {
        let entries = entries_of(directory)?;
        let original = openat(CWD, directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::step("open", directory))?;
        let cover = operations::memory("0755", None)
            .map_err(Error::step("make a file system in memory for", directory))?;
        if directory == Path::new("/") {
            shadow_root(&original, &cover, &entries)?;
        } else {
            operations::attach(&cover, directory)?;
            for name in &entries {
                copy_entry(&original, name, directory)?;
            }
        }
        self.shadowed.push(directory.to_owned());
        self.remember(directory)
    }
}

/// Puts the shadow of `/` together at a scratch place and makes it the root.
fn shadow_root(original: &OwnedFd, cover: &OwnedFd, entries: &[OsString]) -> Result<(), Error> {
    let root = Path::new("/");
    let scratch = scratch_name(original, entries)
        .ok_or_else(|| Error::step("find a directory in", root)(Errno::NOENT))?;
    // Opened before it is covered: a later look-up would find the cover.
    let scratch_tree = clone_tree(original, &scratch)?;
    let place = root.join(&scratch);
    operations::attach(cover, &place)?;
    for name in entries.iter().filter(|name| **name != scratch) {
        copy_entry(original, name, &place)?;
    }
    let target = place.join(&scratch);
    make(&target, Kind::Directory).map_err(|source| Error::Step {
        what: "make",
        path: target.clone(),
        source,
    })?;
    operations::attach(&scratch_tree, &target)?;
    operations::change_root(&place)
}

/// Returns a directory over which something can be attached for a moment.
pub fn scratch() -> Result<PathBuf, Error> {
    let root = Path::new("/");
    let original = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::step("open", root))?;
    scratch_name(&original, &entries_of(root)?)
        .map(|name| root.join(name))
        .ok_or_else(|| Error::step("find a directory in", root)(Errno::NOENT))
}

fn scratch_name(original: &OwnedFd, entries: &[OsString]) -> Option<OsString> {
    let is_directory = |name: &OsStr| {
        statat(original, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    let preferred = OsString::from("tmp");
    if is_directory(&preferred) {
        return Some(preferred);
    }
    entries.iter().find(|name| is_directory(name)).cloned()
}

/// Makes the entry `name` of `original` appear in `directory`.
fn copy_entry(original: &OwnedFd, name: &OsStr, directory: &Path) -> Result<(), Error> {
    let target = directory.join(name);
    let stat = match statat(original, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // Removed since the directory was listed.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(Error::step("look at", &target)(errno)),
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let destination = readlinkat(original, name, Vec::new())
                .map_err(Error::step("read the link", &target))?;
            return symlinkat(destination, CWD, &target).map_err(Error::step("link", &target));
        }
        FileType::Directory => Kind::Directory,
        _ => Kind::File,
    };
    make(&target, kind).map_err(|source| Error::Step {
        what: "make",
        path: target.clone(),
        source,
    })?;
    operations::attach(&clone_tree(original, name)?, &target)
}

fn clone_tree(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Error> {
    operations::clone_at(directory.as_fd(), name, true)
        .map_err(Error::step("bind", Path::new(name)))
}

/// Opens a file or directory, with all that is mounted below it, for binding it
/// at another place.
///
/// # Errors
///
/// [`Error::Step`] with the path.
pub fn open_source(source: &Path) -> Result<OwnedFd, Error> {
    operations::clone_at(CWD, source, true).map_err(Error::step("bind", source))
}

fn entries_of(directory: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |source| Error::Step { what: "list", path: directory.to_owned(), source };
    fs::read_dir(directory)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(failed))
        .collect()
}

fn deepest_existing(target: &Path) -> Result<PathBuf, Error> {
    let found = target.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    fs::canonicalize(found).map_err(|source| Error::MountPoint { path: target.to_owned(), source })
}

/// Makes a directory or a file, and the directories above it. Everyone may look at them,
/// whatever the file mode mask says.
fn make(target: &Path, kind: Kind) -> io::Result<()> {
    let directory = match kind {
        Kind::Directory => Some(target),
        Kind::File => target.parent(),
    };
    let missing = directory.iter().flat_map(|path| path.ancestors());
    let missing: Vec<&Path> = missing.take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        fs::create_dir(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    if kind == Kind::File {
        File::create_new(target)?.set_permissions(Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn wrong_kind(target: &Path, kind: Kind) -> Error {
    let errno = if kind == Kind::Directory { Errno::NOTDIR } else { Errno::ISDIR };
    Error::MountPoint { path: target.to_owned(), source: errno.into() }
}
