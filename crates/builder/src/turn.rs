// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Taking turns: one build at a time in a build directory, and at anything else that builds
//! share.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{BuildError, Progress, Result};

const PAUSE: Duration = Duration::from_millis(100);

/// The right to work in a build directory, until dropped. The kernel takes it
/// back from a process that dies.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
    /// Whether another build worked here in the meantime.
    pub(crate) waited: bool,
}

impl Turn {
    /// Waits until no other build has the lock.
    pub(crate) fn take(
        path: &Path,
        progress: &mut dyn Progress,
        interrupt: &AtomicBool,
    ) -> Result<Self> {
        let failed = || BuildError::file("lock", path);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed())?;
        let mut waited = false;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {
                    if !waited {
                        progress.waiting(process_with_lock(path), path);
                    }
                    waited = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    progress.warning(
                        "the file system of the build directory has no locks: nothing else may \
                         build there now",
                    );
                    break;
                }
                Err(errno) => return Err(failed()(errno.into())),
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(BuildError::Interrupted);
            }
            thread::sleep(PAUSE);
        }
        let number = std::process::id().to_string();
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(number.as_bytes()))
            .map_err(failed())?;
        Ok(Self { _lock: lock, waited })
    }
}

/// Reads the number of the process that has its turn.
fn process_with_lock(path: &Path) -> Option<u32> {
    let mut text = String::new();
    fs::File::open(path).and_then(|file| file.take(16).read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}
