// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Directories for as long as a command runs.
//!
//! A command that is killed leaves its directory behind. It is locked while it is in use, so that
//! a later command can tell, and takes it away.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// How the names of all of them begin.
const PREFIX: &str = "cabane-scratch-";
/// How old they are before they are looked at: between making one and locking it there is a
/// moment, and a lock of another host may not be seen.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes one in the directory for temporary files.
    ///
    /// # Errors
    ///
    /// That of the system, with the directory.
    pub fn new() -> io::Result<Self> {
        let place = std::env::temp_dir();
        Self::new_in(&place).map_err(|error| {
            let text = format!("{}: {error}", place.display());
            io::Error::new(error.kind(), text)
        })
    }

    /// Makes one in a directory, from which those go that killed commands of this user left.
    pub fn new_in(place: &Path) -> io::Result<Self> {
        sweep(place);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let lock = File::open(directory.path())?;
        // Without locks it is removed too late at worst.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes those in a directory that no one uses. What cannot be removed stays.
fn sweep(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let is_left = path.symlink_metadata().is_ok_and(|found| {
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            found.is_dir() && found.uid() == own && age.is_some_and(|age| age > AGE)
        });
        if is_left
            && File::open(&path)
                .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn it_is_gone_when_it_is_dropped() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new_in(place.path()).unwrap();
        fs::write(scratch.path().join("file"), "text").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_killed_commands_left_is_removed_after_a_day() {
        let place = tempfile::tempdir().unwrap();
        let before = SystemTime::now() - 2 * AGE;
        let left = |name: &str, is_old: bool| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "text").unwrap();
            let directory = File::open(&path).unwrap();
            if is_old {
                directory.set_modified(before).unwrap();
            }
            (path, directory)
        };
        let (old, _) = left("cabane-scratch-old", true);
        let (used, lock) = left("cabane-scratch-used", true);
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let (new, _) = left("cabane-scratch-new", false);
        let (other, _) = left("other", true);
        let _made = Scratch::new_in(place.path()).unwrap();
        let there = [old, used, new, other].map(|path| path.exists());
        assert_eq!(there, [false, true, true, true]);
    }
}
