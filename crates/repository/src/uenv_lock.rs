// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock with which uenv downloads an image: `images/<sha256>.lock`, beside the image.
//!
//! uenv downloads into the directory of the image, and adds the labels afterwards, all under this lock.
//! Without it, an image that has the wrong size could be a download of uenv. If uenv is
//! interrupted, it removes the directory and the labels, whatever was put there in between.
//!
//! A lock can outlive its process, as those of hosts that are gone on NFS. So the file is watched
//! as well: if nothing arrives for long, no one waits any more.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_label::Digest;

use crate::layout::Layout;

/// After this time in which nothing arrives, a download of uenv is taken for dead.
const LEASE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct ImageLock(Option<File>);

impl Drop for ImageLock {
    fn drop(&mut self) {
        // Closing the file is not enough if a child process has inherited it.
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

impl ImageLock {
    /// Waits until uenv does not download the image, and keeps it from beginning. Goes on without
    /// the lock where there are no locks, and if the download is dead.
    pub(crate) fn acquire(layout: &Layout, digest: &Digest) -> Self {
        Self::acquire_within(layout, digest, LEASE)
    }

    fn acquire_within(layout: &Layout, digest: &Digest, lease: Duration) -> Self {
        let Some(file) = open(layout, digest, true) else { return Self(None) };
        let mut watch = Watch::default();
        loop {
            match file.try_lock() {
                Ok(()) => return Self(Some(file)),
                Err(TryLockError::WouldBlock) if watch.is_alive(layout, digest, lease) => {
                    sleep(PAUSE);
                }
                Err(_) => return Self(None),
            }
        }
    }
}

/// Returns whether a process has the lock of an image.
pub(crate) fn is_held(layout: &Layout, digest: &Digest) -> bool {
    let locked = open(layout, digest, false).map(|file| file.try_lock());
    matches!(locked, Some(Err(TryLockError::WouldBlock)))
}

/// What was seen of a download of uenv, and since when it is so.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<(State, Instant)>);

/// The size of the image and when it changed, and when files appeared beside it.
type State = (Option<(u64, i64, i64)>, Option<(i64, i64)>);

impl Watch {
    /// Returns whether a process of uenv downloads the image: it has the lock, and something arrives.
    pub(crate) fn is_downloaded(&mut self, layout: &Layout, digest: &Digest) -> bool {
        layout.is_uenv() && is_held(layout, digest) && self.is_alive(layout, digest, LEASE)
    }

    fn is_alive(&mut self, layout: &Layout, digest: &Digest, lease: Duration) -> bool {
        let now = Instant::now();
        let image = fs::metadata(layout.image(digest)).ok();
        let place = fs::metadata(layout.image_directory(digest)).ok();
        let state = (
            image.map(|found| (found.len(), found.mtime(), found.mtime_nsec())),
            place.map(|found| (found.mtime(), found.mtime_nsec())),
        );
        match &self.0 {
            Some((seen, since)) if *seen == state => now.duration_since(*since) < lease,
            _ => {
                self.0 = Some((state, now));
                true
            }
        }
    }
}

fn path(layout: &Layout, digest: &Digest) -> PathBuf {
    layout.images().join(format!("{digest}.lock"))
}

/// Opens the file of the lock. NFS locks only files that are open for writing; elsewhere, and in a
/// file of another user, reading suffices. A named pipe is not waited for.
fn open(layout: &Layout, digest: &Digest, make: bool) -> Option<File> {
    let path = path(layout, digest);
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = flags.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    let for_reading = options.clone();
    let for_writing = options.write(true).create(make).mode(0o666).open(&path);
    for_writing.or_else(|_| for_reading.open(&path)).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::Kind;

    fn world() -> (tempfile::TempDir, Layout, Digest) {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout { kind: Kind::Uenv, ..Layout::new(place.path().to_owned()) };
        let digest: Digest = "a".repeat(64).parse().unwrap();
        fs::create_dir_all(layout.image_directory(&digest)).unwrap();
        (place, layout, digest)
    }

    #[test]
    fn one_that_is_held_is_waited_for_while_something_arrives() {
        let (_place, layout, digest) = world();
        let first = ImageLock::acquire(&layout, &digest);
        let lease = Duration::from_millis(400);
        let writer = std::thread::spawn({
            let (layout, digest) = (layout.clone(), digest.clone());
            move || {
                let mut file = File::create(layout.image(&digest)).unwrap();
                for _ in 0..8 {
                    file.write_all(b"more").unwrap();
                    sleep(lease / 4);
                }
                drop(first);
            }
        });
        let second = ImageLock::acquire_within(&layout, &digest, lease);
        writer.join().unwrap();
        assert!(second.0.is_some() && is_held(&layout, &digest));
    }

    #[test]
    fn one_of_a_dead_download_is_not_waited_for() {
        let (_place, layout, digest) = world();
        let _first = ImageLock::acquire(&layout, &digest);
        let second = ImageLock::acquire_within(&layout, &digest, Duration::from_millis(20));
        assert!(second.0.is_none());
    }

    #[test]
    fn a_look_at_it_leaves_no_file() {
        let (_place, layout, digest) = world();
        assert!(!is_held(&layout, &digest) && !path(&layout, &digest).exists());
    }
}
