// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One file for each content, mode, and time of a file.
//!
//! New objects are in the staging area until everything is on disk: an object is only ever found by its
//! name when its content is complete, also after a power failure.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// How much is read at once.
const PART: usize = 1 << 20;

/// What makes two files the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The SHA-256 of the content, in hexadecimal digits.
    sum: String,
    size: u64,
    mode: u32,
    modified: (i64, i64),
}

impl Key {
    pub(crate) fn new(sum: String, size: u64, mode: u32, modified: (i64, i64)) -> Self {
        Self { sum, size, mode, modified }
    }

    /// Tells whether a file is as its name says, but for its content.
    fn fits(&self, file: &fs::Metadata) -> bool {
        let (size, mode) = (file.len(), file.mode() & 0o7777);
        let modified = (file.mtime(), file.mtime_nsec());
        file.is_file()
            && (file.uid(), file.gid()) == (0, 0)
            && (size, mode, modified) == (self.size, self.mode, self.modified)
    }
}

/// The name of the object, without the first two digits of the sum.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = self.modified;
        let rest = self.sum.get(2..).unwrap_or_default();
        write!(f, "{rest}-{:o}-{seconds}.{nanoseconds}", self.mode)
    }
}

/// The objects of a store, and those that come to it.
#[derive(Debug)]
pub(crate) struct Objects {
    place: PathBuf,
    /// In the staging area.
    new: PathBuf,
    buffer: Vec<u8>,
    /// The bytes of the objects that were made.
    pub(crate) new_bytes: u64,
}

impl Objects {
    /// Begins with no new objects.
    pub(crate) fn new(place: PathBuf, new: PathBuf) -> Self {
        Self { place, new, buffer: vec![0; PART], new_bytes: 0 }
    }

    /// Returns the SHA-256 of what can be read, in hexadecimal digits, and its size.
    pub(crate) fn sum(
        &mut self,
        file: &mut File,
        copy: Option<&mut File>,
    ) -> io::Result<(String, u64)> {
        sum_with(file, copy, &mut self.buffer)
    }

    /// Makes a name for a file of an image.
    pub(crate) fn link(&mut self, key: &Key, content: &mut File, target: &Path) -> io::Result<()> {
        let prefix = key.sum.get(..2).unwrap_or_default();
        let kept = self.place.join(prefix).join(key.to_string());
        let new = self.new.join(prefix).join(key.to_string());
        for object in [&new, &kept] {
            match fs::symlink_metadata(object) {
                Ok(found) if key.fits(&found) => match fs::hard_link(object, target) {
                    // A file has no more names than the file system allows: the next one begins anew.
                    Err(error) if is_full_of_names(&error) => {}
                    linked => return linked,
                },
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.make(key, content, &new)?;
        fs::hard_link(&new, target)
    }

    fn make(&mut self, key: &Key, content: &mut File, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        // The one that has all the names that it may have.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        content.rewind()?;
        let copied = io::copy(content, &mut file)?;
        if copied != key.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.set_permissions(Permissions::from_mode(key.mode))?;
        set_time(path, key.modified)?;
        self.new_bytes = self.new_bytes.saturating_add(copied);
        Ok(())
    }

    /// Gives the new objects their names in the store. What they hold is on disk.
    pub(crate) fn keep(&self) -> io::Result<()> {
        for directory in entries(&self.new)? {
            let place = self.place.join(directory.file_name().unwrap_or_default());
            fs::create_dir_all(&place)?;
            for object in entries(&directory)? {
                fs::rename(&object, place.join(object.file_name().unwrap_or_default()))?;
            }
        }
        Ok(())
    }

    /// Removes the objects that no tree has; returns how many bytes they had.
    pub(crate) fn remove_unused(place: &Path) -> io::Result<u64> {
        let mut freed = 0_u64;
        for directory in entries(place)? {
            for object in entries(&directory)? {
                let found = fs::symlink_metadata(&object)?;
                if found.nlink() == 1 {
                    fs::remove_file(&object)?;
                    freed = freed.saturating_add(found.len());
                }
            }
            // One that is not empty stays.
            let _ = fs::remove_dir(directory);
        }
        Ok(freed)
    }
}

/// Returns the paths of what is in a directory; nothing where there is none.
pub(crate) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Sets the time of a file, a directory, or a link itself.
pub(crate) fn set_time(path: &Path, (seconds, nanoseconds): (i64, i64)) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is_full_of_names(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MLINK.raw_os_error())
}

fn sum_with(
    file: &mut File,
    mut copy: Option<&mut File>,
    buffer: &mut [u8],
) -> io::Result<(String, u64)> {
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    loop {
        let count = match file.read(buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let part = buffer.get(..count).unwrap_or_default();
        hash.update(part);
        if let Some(copy) = &mut copy {
            copy.write_all(part)?;
        }
        size = size.saturating_add(count as u64);
    }
    let digits = cabane_label::Digest::from_bytes(hash.finalize().into());
    Ok((digits.to_string(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(mode: u32, modified: (i64, i64)) -> String {
        Key::new(format!("ab{}", "0".repeat(62)), 1, mode, modified).to_string()
    }

    #[test]
    fn files_with_another_mode_or_time_are_other_objects() {
        let name = key(0o644, (1, 0));
        assert_eq!(name, format!("{}-644-1.0", "0".repeat(62)));
        assert!(
            name != key(0o755, (1, 0)) && name != key(0o644, (1, 1)) && name != key(0o644, (2, 0))
        );
    }
}
