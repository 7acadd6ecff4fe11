// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds and what removes something from the cache keep out of each other's way.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cabane_label::shown;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::{BuildError, Progress, Result};

/// The file that is locked, in the cache directory.
const LOCK: &str = "in-use.lock";
const PAUSE: Duration = Duration::from_millis(100);
/// How long a build waits for the cache of others. Every user who can read the lock can keep it locked.
const PATIENCE: Duration = Duration::from_secs(60);

/// The right to use the cache, or to remove something from it, until dropped. The kernel
/// takes it back from a process that ends.
#[derive(Debug)]
pub struct InUse {
    _lock: Option<File>,
}

impl InUse {
    /// Waits until nothing is being removed. Any number of builds may use the cache at once.
    pub(crate) fn share(
        cache: &Path,
        progress: &mut dyn Progress,
        interrupt: &AtomicBool,
    ) -> Result<Self> {
        Self::share_within(cache, Duration::MAX, progress, interrupt)
    }

    /// As [`Self::share`], for the cache of others: after a minute, the build uses it all the same. A package
    /// that is removed meanwhile is built.
    pub(crate) fn share_of_others(
        cache: &Path,
        progress: &mut dyn Progress,
        interrupt: &AtomicBool,
    ) -> Result<Self> {
        Self::share_within(cache, PATIENCE, progress, interrupt)
    }

    fn share_within(
        cache: &Path,
        limit: Duration,
        progress: &mut dyn Progress,
        interrupt: &AtomicBool,
    ) -> Result<Self> {
        let begin = Instant::now();
        let lock = match open(cache) {
            Ok(lock) => lock,
            // The cache belongs to others, and is only read.
            Err(error) if is_closed(&error) => match open_to_read(cache) {
                Ok(lock) => lock,
                Err(_) => return Ok(Self { _lock: None }),
            },
            Err(error) => return Err(BuildError::file("open", &cache.join(LOCK))(error)),
        };
        let mut waited = false;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(Self { _lock: Some(lock) }),
                Err(Errno::WOULDBLOCK) if begin.elapsed() >= limit => {
                    let cache = shown(cache);
                    progress.warning(&format!("another process keeps the cache {cache} locked"));
                    return Ok(Self { _lock: None });
                }
                Err(Errno::WOULDBLOCK) if !waited => {
                    progress.remark("waiting for `cabane cache` to finish removing files");
                    waited = true;
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                // What removes something refuses to do so there.
                Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    return Ok(Self { _lock: None });
                }
                Err(errno) => return Err(BuildError::file("lock", &cache.join(LOCK))(errno)),
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(BuildError::Interrupted);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Takes the cache for this process alone.
    ///
    /// # Errors
    ///
    /// A build uses it, or the file system has no locks.
    pub fn alone(cache: &Path) -> Result<Self> {
        let lock = open(cache).map_err(BuildError::file("open", &cache.join(LOCK)))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: Some(lock) }),
            Err(Errno::WOULDBLOCK) => Err(BuildError::refused(
                format!(
                    "cannot remove anything from the cache {}: a build is using it",
                    shown(cache)
                ),
                "run the command again when no build is running; `--dry-run` always works",
            )),
            Err(errno) => Err(BuildError::file("lock", &cache.join(LOCK))(errno)),
        }
    }
}

fn open(cache: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
    options.open(cache.join(LOCK))
}

/// Opens the lock in the cache of others. Neither a named pipe nor a link is waited for or followed.
fn open_to_read(cache: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(cache.join(LOCK))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Warnings(Vec<String>);

    impl Progress for Warnings {
        fn warning(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    #[test]
    fn a_cache_that_a_stranger_keeps_locked_is_used_without_the_lock() {
        let cache = tempfile::tempdir().unwrap();
        let _stranger = InUse::alone(cache.path()).unwrap();
        let mut warnings = Warnings::default();
        let interrupt = AtomicBool::new(false);
        let limit = Duration::ZERO;
        InUse::share_within(cache.path(), limit, &mut warnings, &interrupt).unwrap();
        assert!(warnings.0[0].starts_with("another process keeps the cache "), "{:?}", warnings.0);
    }
}
