// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bringing the bytes of an image into the repository, and counting and summing them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

use crate::layout::Layout;
use crate::record::KnownImage;
use crate::{Access, Error, ImageFormat, disk};

const BUFFER: usize = 1024 * 1024;

/// Space for the metadata and the directories, beside the image itself.
const MARGIN: u64 = 1024 * 1024;

/// Receives how many bytes are done, and of how many.
pub(crate) type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// An image outside the repository.
pub(crate) struct Source<'a> {
    path: &'a Path,
    file: File,
    size: u64,
}

impl<'a> Source<'a> {
    /// Opens an image and looks at its header.
    pub(crate) fn open(path: &'a Path) -> Result<Self, Error> {
        let file = disk::open(path).map_err(Error::io("read", path))?;
        format_of(&file, path)?;
        let size = file.metadata().map_err(Error::io("read", path))?.len();
        Ok(Self { path, file, size })
    }

    /// Sums the image without bringing it anywhere.
    pub(crate) fn digest(&self) -> Result<Digest, Error> {
        digest_of(self.path, &mut |_| ()).map(|(digest, _)| digest)
    }

    /// Returns who may read a copy of the image in a new directory.
    pub(crate) fn access(&self, directory: &Path) -> Result<Access, Error> {
        let file = self.metadata()?;
        // In a repository, ours or another, an image has a directory that bears its digest.
        let place = self.path.parent().filter(|place| {
            let name = place.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.parse::<Digest>().is_ok())
        });
        let place = place.map(|place| fs::metadata(place).map_err(Error::io("inspect", place)));
        Access::of_source(&file, place.transpose()?.as_ref(), directory)
    }

    /// Returns what is known about the file itself.
    pub(crate) fn metadata(&self) -> Result<fs::Metadata, Error> {
        self.file.metadata().map_err(Error::io("read", self.path))
    }

    /// Makes `target`, a file with the bytes of the image, and waits until it is on disk.
    ///
    /// What is summed is what is in the target. The source stays where it is, also when it is
    /// to be moved: it is removed when everything else is done, so that it cannot be lost.
    pub(crate) fn import(
        &self,
        target: &Path,
        how: Transfer,
        progress: &mut Progress<'_>,
    ) -> Result<KnownImage, Error> {
        let shared = match how {
            Transfer::Move => self.link(target)?,
            Transfer::Share => self.clone_to(target)? || self.link(target)?,
            Transfer::Copy => false,
        };
        let total = self.size;
        let mut report = |done: u64| progress(done, total);
        let failed = |error: io::Error| self.failure("copy", target, error);
        let (digest, size) = if shared || self.clone_to(target)? {
            let file = File::open(target).map_err(Error::io("read", target))?;
            pump(&file, None, &mut report).map_err(Error::io("read", target))?
        } else {
            self.check_space(target)?;
            let mut file = disk::create_new(target).map_err(Error::io("create", target))?;
            pump(&self.file, Some(&mut file), &mut report).map_err(failed)?
        };
        let file = File::open(target).map_err(Error::io("read", target))?;
        file.sync_all().map_err(failed)?;
        Ok(KnownImage { digest, size, format: format_of(&file, self.path)? })
    }

    /// Tries to give the file a second name, which makes moving it a matter of microseconds.
    fn link(&self, target: &Path) -> Result<bool, Error> {
        let found = fs::symlink_metadata(self.path);
        let found = found.map_err(Error::io("inspect", self.path))?;
        // The link itself is not the image. And another user could change a file that is theirs
        // after it was summed.
        let own = rustix::process::geteuid().as_raw();
        if found.is_symlink() || found.uid() != own {
            return Ok(false);
        }
        match fs::hard_link(self.path, target) {
            Ok(()) => Ok(true),
            Err(error) if disk::is_unsupported(&error) => Ok(false),
            Err(error) => Err(self.failure("create", target, error)),
        }
    }

    /// Tries to let the two files share their blocks, as some file systems can.
    fn clone_to(&self, target: &Path) -> Result<bool, Error> {
        let file = disk::create_new(target).map_err(Error::io("create", target))?;
        if rustix::fs::ioctl_ficlone(&file, &self.file).is_ok() {
            return Ok(true);
        }
        fs::remove_file(target).map_err(Error::io("remove", target))?;
        Ok(false)
    }

    fn check_space(&self, target: &Path) -> Result<(), Error> {
        let place = target.parent().unwrap_or(target);
        let free = disk::free_space(place).map_err(Error::io("inspect", place))?;
        let need = self.size;
        if free >= need.saturating_add(MARGIN) {
            return Ok(());
        }
        Err(Error::NoSpace { path: place.to_owned(), need: Some(need), free: Some(free) })
    }

    fn failure(&self, action: &'static str, path: &Path, error: io::Error) -> Error {
        match Error::io(action, path)(error) {
            Error::NoSpace { path, .. } => {
                let free = disk::free_space(path.parent().unwrap_or(&path)).ok();
                Error::NoSpace { path, need: Some(self.size), free }
            }
            other => other,
        }
    }

    /// Returns whether the image belongs to the repository itself.
    pub(crate) fn is_inside(&self, layout: &Layout) -> bool {
        match (fs::canonicalize(self.path), fs::canonicalize(&layout.root)) {
            (Ok(path), Ok(root)) => path.starts_with(root),
            _ => false,
        }
    }
}

/// Sums the file of an image that is in the repository, and reports how many bytes it has read.
pub(crate) fn digest_of(path: &Path, report: &mut dyn FnMut(u64)) -> Result<(Digest, u64), Error> {
    let file = disk::open(path).map_err(Error::io("read", path))?;
    pump(&file, None, report).map_err(Error::io("read", path))
}

pub(crate) fn format_of(file: &File, path: &Path) -> Result<ImageFormat, Error> {
    ImageFormat::of_file(file).map_err(|source| Error::Image { path: path.to_owned(), source })
}

/// Reads a file to its end, sums what was read and writes it if there is somewhere to write.
fn pump(
    mut from: &File,
    mut into: Option<&mut File>,
    report: &mut dyn FnMut(u64),
) -> io::Result<(Digest, u64)> {
    let mut buffer = vec![0; BUFFER];
    let mut sum = Sha256::new();
    let mut size = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        sum.update(&buffer[..count]);
        if let Some(into) = &mut into {
            into.write_all(&buffer[..count])?;
        }
        size += count as u64;
        report(size);
    }
    Ok((Digest::from_bytes(sum.finalize().into()), size))
}

/// What happens to an image that is brought into a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// It also stays where it is.
    Copy,
    /// It is removed from where it is, once it is safe in the repository.
    Move,
    /// It also stays where it is, and the two share their blocks, or are one file, where that
    /// is possible.
    Share,
}
