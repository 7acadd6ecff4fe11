// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory of a kernel: read, written at once, and removed, without following a link in it.
//!
//! A directory of kernels may be one where others write. What is at the name of a kernel is opened as a
//! directory and never as a link, and its files are reached from there.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

use crate::spec::KernelSpec;

const FILE: &str = "kernel.json";
const TEMPORARY: &str = ".kernel.json.cabane";
/// The most bytes of a `kernel.json` that are read.
const MOST: u64 = 1 << 20;

/// The directory of a kernel.
pub(crate) struct KernelDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

impl KernelDirectory {
    /// Opens the directory of a kernel.
    ///
    /// # Errors
    ///
    /// It is not there, or no directory.
    pub(crate) fn open(kernels: &Path, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = kernels.join(name);
        Ok(Self { directory: rustix::fs::open(&path, flags, Mode::empty())?, path })
    }

    /// The same, and makes it if it is not there. Returns whether it was made.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(crate) fn make(kernels: &Path, name: &str) -> io::Result<(Self, bool)> {
        fs::create_dir_all(kernels)?;
        let is_new = match rustix::fs::mkdir(kernels.join(name), Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok((Self::open(kernels, name)?, is_new))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the kernel. `None` if there is no file, or if it is no regular file, too long, or malformed.
    pub(crate) fn read(&self) -> Option<KernelSpec> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, FILE, flags, Mode::empty()).ok()?;
        let file = File::from(file);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= MOST;
        is_whole.then(|| serde_json::from_slice(&bytes).ok()).flatten()
    }

    /// Whether there is anything at the place of the file.
    pub(crate) fn has_file(&self) -> bool {
        rustix::fs::statat(&self.directory, FILE, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes the kernel at once or not at all.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn write(&self, spec: &KernelSpec) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(spec)?;
        bytes.push(b'\n');
        let temporary = format!("{TEMPORARY}-{}", std::process::id());
        let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let mut file = File::from(rustix::fs::openat(&self.directory, &temporary, flags, mode)?);
        let written = file.write_all(&bytes).and_then(|()| file.sync_all()).and_then(|()| {
            Ok(rustix::fs::renameat(&self.directory, &temporary, &self.directory, FILE)?)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
        written
    }

    /// Removes the directory with all that is in it; a link at its name is removed and not followed.
    ///
    /// # Errors
    ///
    /// Something in it cannot be removed.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// Returns the names of the directories in a directory, without links.
pub(crate) fn names_in(kernels: &Path) -> Vec<String> {
    let entries = fs::read_dir(kernels).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Whether a path is a link.
pub(crate) fn is_link(path: &Path) -> bool {
    let status = rustix::fs::lstat(path);
    status
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode as RawMode) == FileType::Symlink)
}
