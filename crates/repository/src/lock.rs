// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock that writers take, where the file system has locks.
//!
//! It spares writers from undoing each other's work. Nothing depends on it: where there are no
//! locks, or where a process with the lock has been stopped, a writer goes on without.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a writer waits. What is done under the lock takes milliseconds; removing a large
/// image on a slow file system may take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(3);

/// The lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct WriterLock(Option<File>);

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Closing the file is not enough if a child process has inherited it.
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

impl WriterLock {
    pub(crate) fn acquire(path: &Path) -> Self {
        Self::acquire_within(path, TIME_LIMIT)
    }

    fn acquire_within(path: &Path, time_limit: Duration) -> Self {
        let Some(file) = open(path) else {
            return Self(None);
        };
        let end = Instant::now() + time_limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Self(Some(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(PAUSE),
                Err(_) => return Self(None),
            }
        }
    }
}

/// Opens the file of the lock. On NFS only a file opened for writing can be locked; elsewhere
/// reading suffices, and in a repository of several users it may be all that is allowed.
fn open(path: &Path) -> Option<File> {
    let for_writing = OpenOptions::new().read(true).append(true).create(true).open(path);
    for_writing.or_else(|_| File::open(path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held(lock: &WriterLock) -> bool {
        lock.0.is_some()
    }

    #[test]
    fn a_lock_is_held_by_one_writer_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".lock");
        let _first = WriterLock::acquire(&path);
        assert!(!is_held(&WriterLock::acquire_within(&path, Duration::from_millis(20))));
    }

    #[test]
    fn a_lock_is_free_when_its_writer_is_done() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".lock");
        drop(WriterLock::acquire(&path));
        assert!(is_held(&WriterLock::acquire(&path)));
    }

    #[test]
    fn a_writer_goes_on_where_no_lock_can_be_made() {
        assert!(!is_held(&WriterLock::acquire(Path::new("/proc/no/such/place"))));
    }
}
