// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files that a download fills: the image, and the marks of the parts that are there.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};

use rustix::fs::FallocateFlags;

use super::lock;
use super::parts::{Blob, Part, Parts};
use crate::chunks::copy_known;
use crate::{Error, Result};

/// The image, as long as it is not whole.
pub(super) const PARTIAL: &str = "image.partial";
/// The marks.
pub(super) const PARTS: &str = "image.parts";

/// The files that are filled.
pub(super) struct Target {
    pub(super) file: File,
    marks: File,
    /// Where the first mark stands.
    marks_start: u64,
    parts: Mutex<Parts>,
    pub(super) changed: Condvar,
    pub(super) path: PathBuf,
}

impl Target {
    /// Returns whether parts of a blob are there.
    pub(super) fn is_begun(directory: &Path, blob: &Blob<'_>) -> bool {
        marks_in(directory, blob).is_some_and(|marks| marks.contains(&b'+'))
    }

    pub(super) fn open(directory: &Path, blob: &Blob<'_>, bases: &[PathBuf]) -> Result<Self> {
        let (path, marks_path) = (directory.join(PARTIAL), directory.join(PARTS));
        let head = blob.head();
        let known = marks_in(directory, blob);
        let open = |path: &Path, is_new: bool| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(is_new);
            options.open(path).map_err(Error::io("write", path))
        };
        // Without marks no one takes the file for what it is not yet.
        let marks = open(&marks_path, known.is_none())?;
        let file = open(&path, known.is_none())?;
        let all = if let Some(known) = known {
            let part = |mark: &u8| match mark {
                b'+' => Part::There,
                _ => Part::Missing,
            };
            known.iter().map(part).collect()
        } else {
            reserve(&file, blob.size, &path)?;
            copy_known(&blob.known, bases, &file).map_err(Error::io("write", &path))?;
            let fresh = [head.as_bytes(), &vec![b'.'; blob.parts.len()]].concat();
            let written = marks.write_all_at(&fresh, 0);
            written.map_err(Error::io("write", &marks_path))?;
            vec![Part::Missing; blob.parts.len()]
        };
        let is_there = |(index, part): (usize, &Part)| (*part == Part::There).then_some(index);
        let there: Vec<usize> = all.iter().enumerate().filter_map(is_there).collect();
        let known_bytes: u64 = blob.known.iter().map(|piece| piece.length).sum();
        let bytes: u64 = there.iter().map(|index| blob.part(*index).1).sum();
        Ok(Self {
            file,
            marks,
            marks_start: head.len() as u64,
            parts: Mutex::new(Parts { all, there: there.len(), bytes: known_bytes + bytes }),
            changed: Condvar::new(),
            path,
        })
    }

    pub(super) fn parts(&self) -> MutexGuard<'_, Parts> {
        lock(&self.parts)
    }

    /// Notes that a part of so many bytes is there.
    pub(super) fn mark(&self, index: usize, length: u64) -> Result<()> {
        let place = self.marks_start + index as u64;
        let written = self.marks.write_all_at(b"+", place);
        written.map_err(Error::io("write", &self.path))?;
        let mut parts = self.parts();
        if let Some(part) = parts.all.get_mut(index).filter(|part| **part != Part::There) {
            *part = Part::There;
            parts.there += 1;
            parts.bytes += length;
        }
        drop(parts);
        self.changed.notify_all();
        Ok(())
    }

    /// Gives back what was taken and did not come.
    pub(super) fn give_back(&self, run: Range<usize>) {
        let mut parts = self.parts();
        for part in parts.all.iter_mut().take(run.end).skip(run.start) {
            if *part == Part::Taken {
                *part = Part::Missing;
            }
        }
    }
}

/// Reads the marks of a blob, if there are any and the file is there.
fn marks_in(directory: &Path, blob: &Blob<'_>) -> Option<Vec<u8>> {
    let bytes = fs::read(directory.join(PARTS)).ok()?;
    let marks = bytes.strip_prefix(blob.head().as_bytes())?;
    let length = fs::metadata(directory.join(PARTIAL)).ok()?.len();
    (marks.len() == blob.parts.len() && length == blob.size).then(|| marks.to_vec())
}

/// Takes the space for the whole file, so that a full disk shows at once.
fn reserve(file: &File, size: u64, path: &Path) -> Result<()> {
    let taken = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.max(1));
    let outcome = match taken {
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            return Err(Error::no_space(path.parent().unwrap_or(path), size));
        }
        // Not every file system can; then the length alone says how much is to come.
        _ => file.set_len(size),
    };
    outcome.map_err(Error::io("write", path))
}
