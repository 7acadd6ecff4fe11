// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Removing unpacked images.
//!
//! A tree is renamed first, so that no start finds it any more. Then its lock is taken, which starts and
//! steps of jobs hold, and the mounts of all processes are looked at: a start that could not lock it
//! looks for its name when it is attached. What is in use stays until the next run.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use cabane_label::{Digest, ImageDescription, NameMatch, shown};
use cabane_report::{IoContext, Kind, Report, Result};

use crate::in_use::Mounted;
use crate::objects::{Objects, entries};
use crate::store::{REMOVED, Store, UnpackedImage, list, remove_all};

/// What became of an unpacked image that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The image.
    pub image: UnpackedImage,
    /// How many bytes are free; `None` while a process uses the image: the next change of the store
    /// removes it.
    pub freed: Option<u64>,
}

impl Store {
    /// Removes the image that was typed: a label, an ID, or a digest.
    ///
    /// # Errors
    ///
    /// Nothing, or several, are meant; those of the file system.
    pub fn remove(&self, typed: &str) -> Result<Removal> {
        let mut images = list()?;
        let description: ImageDescription = typed.parse()?;
        images.retain(|image| is_meant(&description, image));
        let image = match images.len() {
            0 => {
                let message = format!("no unpacked image matches `{typed}`");
                let hint = "`cabane image unpack --list` lists them";
                return Err(Report::new(Kind::NotFound, message).hinted(hint.to_owned()));
            }
            1 => images.remove(0),
            count => {
                let digests = images.iter().map(|image| format!("  {}", image.digest));
                let digests = digests.collect::<Vec<_>>().join("\n");
                let message = format!("`{typed}` matches {count} unpacked images");
                let hint =
                    format!("write a digest: `cabane image unpack --remove {}`", images[0].digest);
                return Err(Report::new(Kind::Ambiguous, message).detailed(digests).hinted(hint));
            }
        };
        self.remove_tree(image)
    }

    /// Removes all images that no process uses, and calls `tell` for each.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn remove_unused(&self, tell: &mut dyn FnMut(&Removal)) -> Result<()> {
        for image in list()? {
            if image.is_in_use == Some(false) && !self.is_locked(&image.digest)? {
                tell(&self.remove_tree(image)?);
            }
        }
        Ok(())
    }

    fn remove_tree(&self, image: UnpackedImage) -> Result<Removal> {
        let name = image.digest.as_str();
        let failed = || format!("remove the unpacked image {name}");
        let mut target = self.removed().join(name);
        // One that was in use may be there from before.
        for number in 1.. {
            if !target.exists() {
                break;
            }
            target = self.removed().join(format!("{name}.{number}"));
        }
        fs::rename(self.trees().join(name), &target).or_failed(failed)?;
        let freed = if self.delete(&target, &Mounted::now()).or_failed(failed)? {
            Some(self.remove_unused_objects()?)
        } else {
            None
        };
        Ok(Removal { image, freed })
    }

    /// Deletes a tree that was renamed, if nobody uses it.
    fn delete(&self, path: &Path, mounted: &Mounted) -> io::Result<bool> {
        debug_assert!(path.starts_with(self.removed()));
        let name = path.file_name().unwrap_or_default();
        let Some(_lock) = lock(path)? else {
            return Ok(false);
        };
        if mounted.has(REMOVED, name) {
            return Ok(false);
        }
        remove_all(path)?;
        Ok(true)
    }

    /// Deletes the trees that were in use when they were removed, and are not any more.
    pub(crate) fn sweep(&self) -> Result<()> {
        let left = entries(&self.removed()).or_failed(|| "list removed images".to_owned())?;
        if left.is_empty() {
            return Ok(());
        }
        let mounted = Mounted::now();
        let mut has_removed = false;
        for path in left {
            let deleted = self.delete(&path, &mounted);
            has_removed |= deleted.or_failed(|| format!("remove {}", shown(&path)))?;
        }
        if has_removed {
            self.remove_unused_objects()?;
        }
        Ok(())
    }

    pub(crate) fn remove_unused_objects(&self) -> Result<u64> {
        let objects = self.objects();
        Objects::remove_unused(&objects).or_failed(|| format!("clear {}", shown(&objects)))
    }

    /// Tells whether a start or a step of a job holds an image.
    fn is_locked(&self, digest: &Digest) -> Result<bool> {
        let path = self.trees().join(digest.as_str());
        let lock = lock(&path).or_failed(|| format!("lock {}", shown(&path)))?;
        Ok(lock.is_none())
    }
}

/// Takes the lock of a tree; `None` if others hold it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_meant(description: &ImageDescription, image: &UnpackedImage) -> bool {
    let label = || image.record.as_ref()?.label.as_ref()?.parse().ok();
    match description {
        ImageDescription::Digest(digest) => *digest == image.digest,
        ImageDescription::Id(id) => *id == image.digest.id(),
        ImageDescription::Pattern(pattern) => {
            label().is_some_and(|label| pattern.matches(&label, NameMatch::Exact))
        }
        ImageDescription::Path(_) | ImageDescription::Container(_) => false,
    }
}
