// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Assembling a deduplicated image when it is used.
//!
//! The owner of the image assembles it in its place, for everyone. Other users, root among them,
//! assemble it in their cache: a process that starts an image writes only where its user is the owner.
//! The cache is a repository without labels, so that one process assembles an image and the others
//! wait for it, as with downloads.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cabane_label::{Digest, shown};

use crate::in_use::last_read;
use crate::meta_copy::copy_meta;
use crate::parts::PartList;
use crate::staging::Staging;
use crate::transfer::digest_of;
use crate::{Claim, Error, Incoming, Repository, disk, packs};

const PAUSE: Duration = Duration::from_millis(100);
/// An image in the cache that was not used for so many seconds goes when another one is assembled.
const UNUSED: i64 = 14 * 24 * 60 * 60;

impl Repository {
    /// Returns whether there are packs; without them, no image is deduplicated.
    pub fn has_packs(&self) -> bool {
        self.layout().packs().is_dir()
    }

    /// Returns whether an image has no file and is assembled when it is used.
    pub fn is_deduplicated(&self, digest: &Digest) -> bool {
        self.layout().is_deduplicated(digest)
    }

    /// Returns the path of the file of an image. A deduplicated image is assembled first, and has the
    /// digest then. For an image that is not there, the path is returned and nothing is checked.
    ///
    /// The caller has no other thread when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::DamagedParts`], [`Error::NoSpace`], and that nothing can be written.
    pub fn plain_image(&self, digest: &Digest) -> Result<PathBuf, Error> {
        let layout = self.layout();
        if !layout.is_deduplicated(digest) {
            return Ok(layout.image(digest));
        }
        if self.is_own(digest) {
            return self.assemble(digest, self);
        }
        let Some(cache) = &layout.assembly else {
            return Err(Error::Refused {
                message: format!(
                    "the image {} is deduplicated, and only the owner of {} can assemble it there",
                    digest.id(),
                    shown(&layout.root)
                ),
                hint: Some("set a cache directory: `export CABANE_CACHE_DIR=DIRECTORY`".to_owned()),
            });
        };
        let cache = open_cache(cache)?;
        let there = cache.layout().image(digest);
        if there.is_file() {
            return Ok(there);
        }
        remove_unused(&cache);
        self.assemble(digest, &cache)
    }

    /// Returns the files with the bytes of an image: its file, or its packs.
    pub fn files_of(&self, digest: &Digest) -> Vec<PathBuf> {
        let layout = self.layout();
        if !layout.is_deduplicated(digest) {
            return vec![layout.image(digest)];
        }
        let list = PartList::read(&layout.parts(digest));
        list.map_or_else(
            |_| Vec::new(),
            |list| list.packs.iter().map(|one| layout.pack(one)).collect(),
        )
    }

    /// Returns whether this user owns the image and may write beside it.
    fn is_own(&self, digest: &Digest) -> bool {
        let directory = self.layout().image_directory(digest);
        let own = rustix::process::geteuid().as_raw();
        fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir() && found.uid() == own)
            && disk::is_writable(&directory)
            && disk::is_writable(&self.layout().tmp())
    }

    fn assemble(&self, digest: &Digest, target: &Self) -> Result<PathBuf, Error> {
        let (place, mut queue) = (target.layout().image(digest), target.queue(digest));
        loop {
            if place.is_file() {
                return Ok(place);
            }
            if let Claim::Taken(incoming) = queue.try_take()? {
                if place.is_file() {
                    return Ok(place);
                }
                let alive = incoming.keep_alive();
                let image = self.write_plain(digest, &incoming)?;
                self.publish(digest, target, &image)?;
                drop(alive);
                let _ = incoming.discard();
                return Ok(place);
            }
            sleep(PAUSE);
        }
    }

    /// Writes the image into the place of a download, and checks it.
    fn write_plain(&self, digest: &Digest, incoming: &Incoming) -> Result<PathBuf, Error> {
        let (layout, image) = (self.layout(), incoming.image());
        let path = layout.parts(digest);
        let damaged = |reason: String| Error::DamagedParts {
            digest: digest.clone(),
            label: self.last_record(digest).ok().flatten().map(|record| Box::new(record.label)),
            repository: layout.root.clone(),
            reason,
        };
        let list = PartList::read(&path)
            .map_err(|error| damaged(format!("{} cannot be read: {error}", shown(&path))))?;
        if let Some(reason) = packs::problem_of(layout, digest, false, &mut |_| ()) {
            return Err(damaged(reason));
        }
        disk::if_there(fs::remove_file(&image)).map_err(Error::io("remove", &image))?;
        let file = disk::create_new(&image).map_err(Error::io("create", &image))?;
        let free = disk::free_space(incoming.path()).map_err(Error::io("inspect", &image))?;
        // Where blocks are shared, next to nothing is needed.
        let no_space = || Error::NoSpace {
            path: incoming.path().to_owned(),
            need: Some(list.size),
            free: Some(free),
        };
        if let Err(error) = list.write(&|pack| packs::open(layout, pack), &file) {
            let _ = fs::remove_file(&image);
            return Err(match Error::io("write", &image)(error) {
                Error::NoSpace { .. } => no_space(),
                other => other,
            });
        }
        let (sum, _) = digest_of(&image, &mut |_| ())?;
        if sum != *digest {
            let _ = fs::remove_file(&image);
            let found = packs::problem_of(layout, digest, true, &mut |_| ());
            return Err(damaged(
                found.unwrap_or_else(|| "it changed while it was read".to_owned()),
            ));
        }
        finish(&file, list.modified).map_err(Error::io("write", &image))?;
        Ok(image)
    }

    fn publish(&self, digest: &Digest, target: &Self, image: &Path) -> Result<(), Error> {
        let place = target.layout().image_directory(digest);
        let moved = |to: &Path| fs::rename(image, to).map_err(Error::io("create", to));
        if target.path() == self.path() {
            moved(&target.layout().image(digest))?;
            return disk::sync_directory(&place).map_err(Error::io("write", &place));
        }
        let staging = Staging::open(target.layout())?;
        let new = staging.free_name("new");
        fs::create_dir(&new).map_err(Error::io("create", &new))?;
        self.copy_beside(digest, &new)?;
        moved(&new.join(target.layout().image_name()))?;
        let outcome = fs::rename(&new, &place).map_err(Error::io("create", &place));
        let _ = disk::remove_all(staging.path());
        outcome
    }

    /// Copies what is beside an image: its metadata, and files such as its signatures.
    fn copy_beside(&self, digest: &Digest, new: &Path) -> Result<(), Error> {
        let layout = self.layout();
        copy_meta(&layout.meta(digest), &new.join("meta"))?;
        let directory = layout.image_directory(digest);
        let names = disk::names(&directory).map_err(Error::io("read", &directory))?;
        let is_content = |name: &str| ["meta", "parts", layout.image_name()].contains(&name);
        for name in names.iter().filter(|name| !is_content(name)) {
            let from = directory.join(name);
            // A link of another user could lead to anything.
            if fs::symlink_metadata(&from).is_ok_and(|found| found.is_file()) {
                fs::copy(&from, new.join(name)).map_err(Error::io("copy", &from))?;
            }
        }
        Ok(())
    }
}

/// Gives the file the time that it had, and waits until it is on disk.
fn finish(file: &File, (seconds, nanoseconds): (i64, u32)) -> std::io::Result<()> {
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
    let modified = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
    let times = FileTimes::new().set_modified(modified).set_accessed(SystemTime::now());
    file.set_times(times)?;
    file.sync_all()
}

fn open_cache(path: &Path) -> Result<Repository, Error> {
    match Repository::open(path) {
        Err(Error::NotARepository { .. }) => match Repository::create(path) {
            // Another process may have made it at the same time.
            Err(error) => Repository::open(path).map_err(|_| error),
            created => created,
        },
        opened => opened,
    }
}

/// Removes images of the cache that were not used for long. What is open stays readable.
fn remove_unused(cache: &Repository) {
    let layout = cache.layout();
    let now = jiff::Timestamp::now().as_second();
    let names = disk::names(&layout.images()).unwrap_or_default();
    for digest in names.iter().filter_map(|name| name.parse::<Digest>().ok()) {
        if last_read(layout, &digest).is_ok_and(|read| now - read.as_second() > UNUSED) {
            let _ = disk::remove_all(&layout.image_directory(&digest));
        }
    }
}
