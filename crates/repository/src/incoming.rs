// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where an image arrives that is being downloaded.
//!
//! ```text
//! tmp/pull-<sha256>/               where locks reach every host
//! tmp/pull-<sha256>-<kernel>/      where they reach the processes of one host
//! tmp/pull-<sha256>-<owner>/       where there are none: of one process, and not resumed
//!     ├── lock                     held by who downloads, and free when that process ends
//!     ├── image.partial            what has arrived
//!     └── …                        whatever else the downloader notes
//! ```
//!
//! The place outlives its process, so that the next one goes on where it was. A lock that does
//! not reach the other hosts must not be relied on by them, which is why the name of the place
//! depends on it: two hosts then download the same image, but never into one file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use cabane_label::Digest;

use crate::layout::Layout;
use crate::locks::{Reach, kernel_id};
use crate::workshop::{Workshop, incoming_name};
use crate::{Access, Error, Repository, disk};

const LOCK: &str = "lock";
const IMAGE: &str = "image.partial";

/// How often a place is made anew that somebody else has cleared away.
const ATTEMPTS: u32 = 50;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The place of one download. It is this process's alone until it is dropped.
#[derive(Debug)]
pub struct Incoming {
    digest: Digest,
    path: PathBuf,
    layout: Layout,
    /// None if the place bears the name of this process.
    lock: Option<File>,
}

/// What became of the wish to download an image.
#[derive(Debug)]
pub enum Claim {
    /// The place is this process's.
    Taken(Incoming),
    /// Another process downloads this image.
    Busy,
}

impl Repository {
    /// Takes the place for downloading an image, and waits for as long as another process
    /// downloads it.
    ///
    /// Who has waited looks first whether [`Repository::has_image`] is true by now.
    pub fn incoming(&self, digest: &Digest) -> Result<Incoming, Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_incoming(digest)? {
                Claim::Taken(incoming) => return Ok(incoming),
                Claim::Busy => sleep(pause),
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Takes the place for downloading an image, unless another process has it.
    pub fn try_incoming(&self, digest: &Digest) -> Result<Claim, Error> {
        claim(self.layout(), digest, Reach::of(self.path()))
    }
}

fn claim(layout: &Layout, digest: &Digest, reach: Reach) -> Result<Claim, Error> {
    let tmp = layout.tmp();
    if !tmp.is_dir() {
        fs::create_dir(&tmp).map_err(Error::io("create", &tmp))?;
    }
    let path = match (reach, kernel_id()) {
        (Reach::AllHosts, _) => tmp.join(incoming_name(digest)),
        (Reach::ThisHost, Some(kernel)) => tmp.join(format!("{}-{kernel}", incoming_name(digest))),
        (Reach::Nobody, _) | (Reach::ThisHost, None) => return private(layout, digest),
    };
    for _ in 0..ATTEMPTS {
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &path)(error));
            }
            _ => {}
        }
        match try_lock(&path, true) {
            Lock::Gone => {}
            Lock::Held => return Ok(Claim::Busy),
            Lock::Taken(lock) if may_go_on(&path) => {
                return Ok(Claim::Taken(Incoming {
                    digest: digest.clone(),
                    path,
                    layout: layout.clone(),
                    lock: Some(lock),
                }));
            }
            // Another user's, or nothing can be locked here.
            Lock::Taken(_) | Lock::None => return private(layout, digest),
        }
    }
    private(layout, digest)
}

/// Makes a place that bears the name of this process.
fn private(layout: &Layout, digest: &Digest) -> Result<Claim, Error> {
    let path = Workshop::open_for(layout, digest)?;
    Ok(Claim::Taken(Incoming {
        digest: digest.clone(),
        path,
        layout: layout.clone(),
        lock: None,
    }))
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
    // Who held it may have cleared the place away, and somebody may have made another.
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
fn may_go_on(place: &Path) -> bool {
    let names = disk::names(place).unwrap_or_default();
    disk::is_writable(place)
        && names
            .iter()
            .all(|name| disk::is_writable_file(&place.join(name)))
}

impl Incoming {
    /// Returns the directory; what lies there stays until the image is added.
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

    /// Returns whether the next process goes on where this one stops.
    pub fn is_resumed(&self) -> bool {
        self.lock.is_some()
    }

    /// Keeps what arrives from everybody who may not read the image.
    ///
    /// This is for the time before anything has arrived.
    pub fn restrict(&self, access: Access) -> Result<(), Error> {
        access.close_directory(&self.path)
    }

    /// Removes the place and what is in it.
    pub fn discard(self) -> Result<(), Error> {
        let workshop = Workshop::open(&self.layout)?;
        let gone = workshop.free_name("gone");
        fs::rename(&self.path, &gone).map_err(Error::io("remove", &self.path))?;
        disk::remove_all(workshop.path()).map_err(Error::io("remove", workshop.path()))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        match &self.lock {
            // Closing the file is not enough if a child process has inherited it.
            Some(lock) => drop(lock.unlock()),
            // Nobody else would ever look into it.
            None => drop(disk::remove_all(&self.path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> (tempfile::TempDir, Layout) {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path().to_owned());
        fs::create_dir(layout.tmp()).unwrap();
        (place, layout)
    }

    fn digest() -> Digest {
        "a".repeat(64).parse().unwrap()
    }

    fn taken(layout: &Layout, reach: Reach) -> Incoming {
        match claim(layout, &digest(), reach).unwrap() {
            Claim::Taken(incoming) => incoming,
            Claim::Busy => panic!("another process has it"),
        }
    }

    #[test]
    fn where_there_are_no_locks_each_process_has_a_place_of_its_own() {
        let (_place, layout) = layout();
        let (one, two) = (taken(&layout, Reach::Nobody), taken(&layout, Reach::Nobody));
        assert_ne!(one.path(), two.path());
    }

    #[test]
    fn a_place_of_one_process_goes_with_it() {
        let (_place, layout) = layout();
        let incoming = taken(&layout, Reach::Nobody);
        fs::write(incoming.image(), "abc").unwrap();
        drop(incoming);
        assert_eq!(disk::names(&layout.tmp()).unwrap().len(), 0);
    }

    #[test]
    fn locks_of_one_host_are_not_relied_on_by_another() {
        let (_place, layout) = layout();
        let everywhere = taken(&layout, Reach::AllHosts).path().to_owned();
        assert_ne!(taken(&layout, Reach::ThisHost).path(), everywhere);
    }

    #[test]
    fn on_one_host_its_locks_suffice() {
        let (_place, layout) = layout();
        let _one = taken(&layout, Reach::ThisHost);
        let two = claim(&layout, &digest(), Reach::ThisHost).unwrap();
        assert!(matches!(two, Claim::Busy), "{two:?}");
    }
}
