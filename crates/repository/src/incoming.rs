// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where an image arrives that is being downloaded.
//!
//! ```text
//! tmp/pull-<sha256>/               where locks reach every host
//! tmp/pull-<sha256>-<kernel>/      where they reach the processes of one host
//! tmp/pull-<sha256>-<owner>/       where there are none: of one process, and not resumed
//!     ├── lock                     held by who downloads, and free when that process ends
//!     ├── alive                    changes as long as a process downloads, see `queue`
//!     ├── image.partial            what has arrived
//!     └── …                        whatever else the downloader notes
//! ```
//!
//! The place outlives its process, so that the next one goes on where it was. A lock that does
//! not reach the other hosts must not be relied on by them, which is why the name of the place
//! depends on it: two hosts then download the same image, but never into one file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cabane_label::Digest;

use crate::heartbeat::{self, BEAT, KeepAlive};
use crate::layout::Layout;
use crate::staging::Staging;
use crate::{Access, Error, disk};

const LOCK: &str = "lock";
const IMAGE: &str = "image.partial";

/// The place of one download. It is this process's alone until it is dropped.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) digest: Digest,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    /// None if the place bears the name of this process.
    pub(crate) lock: Option<File>,
}

/// What a look at the lock of a place gave.
pub(crate) enum Lock {
    Taken(File),
    Held,
    /// The place has been cleared away.
    Gone,
    /// There are no locks, or this process may not use this one.
    None,
}

/// Tries to take the lock of a place. Where it may not be written it may still be waited for.
pub(crate) fn try_lock(place: &Path, make: bool) -> Lock {
    let path = place.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(make);
    let opened = options.open(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        _ => File::open(&path),
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Lock::Gone,
        Err(_) => return Lock::None,
    };
    let locked = file.try_lock();
    // Who held it may have cleared the place away, and someone may have made another.
    let inode = |found: io::Result<fs::Metadata>| found.map(|one| (one.dev(), one.ino())).ok();
    if inode(file.metadata()) != inode(fs::metadata(&path)) {
        return Lock::Gone;
    }
    match locked {
        Ok(()) => Lock::Taken(file),
        Err(TryLockError::WouldBlock) => Lock::Held,
        Err(TryLockError::Error(_)) => Lock::None,
    }
}

/// Returns whether this process may write what is in a place.
pub(crate) fn may_go_on(place: &Path) -> bool {
    let names = disk::names(place).unwrap_or_default();
    disk::is_writable(place) && names.iter().all(|name| disk::is_writable_file(&place.join(name)))
}

impl Incoming {
    /// Returns the directory; what is there stays until the image is added.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file into which the image is downloaded.
    pub fn image(&self) -> PathBuf {
        self.path.join(IMAGE)
    }

    /// Returns the digest of the image that is awaited.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Says which image was made in the place. It was taken under another digest, since no one
    /// knew this one before.
    #[must_use]
    pub fn made(mut self, digest: &Digest) -> Self {
        self.digest = digest.clone();
        self
    }

    /// Keeps what arrives from everyone who may not read the image.
    ///
    /// This is for the time before anything arrives. What an earlier attempt left is closed, too.
    pub fn restrict(&self, access: Access) -> Result<(), Error> {
        if access == Access::AsNewFiles {
            return Ok(());
        }
        access.close_directory(&self.path)?;
        let image = self.image();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        match options.open(&image) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &image)(error));
            }
            _ => {}
        }
        let names = disk::names(&self.path).map_err(Error::io("read", &self.path))?;
        let mut files = names.iter().map(|name| self.path.join(name));
        files.try_for_each(|file| access.close_file(&file))
    }

    /// Returns for whom an earlier attempt has closed the place.
    pub fn access(&self) -> Access {
        Access::of_directory(&self.path, &self.layout.tmp())
    }

    /// Shows processes on other hosts that the download is under way, until what is returned
    /// is dropped. It takes a thread.
    pub fn keep_alive(&self) -> KeepAlive {
        KeepAlive::every(BEAT, self.path.clone())
    }

    /// Removes the place and what is in it.
    pub fn discard(self) -> Result<(), Error> {
        let staging = Staging::open(&self.layout)?;
        let gone = staging.free_name("gone");
        fs::rename(&self.path, &gone).map_err(Error::io("remove", &self.path))?;
        disk::remove_all(staging.path()).map_err(Error::io("remove", staging.path()))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        heartbeat::stop(&self.path);
        match &self.lock {
            // Closing the file is not enough if a child process has inherited it.
            Some(lock) => drop(lock.unlock()),
            // No one else would ever look into it.
            None => drop(disk::remove_all(&self.path)),
        }
    }
}
