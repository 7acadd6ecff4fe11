// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An archive that is one file, or several in a row: `FILE.001`, `FILE.002`.
//!
//! Files are written beside their place, as `FILE.part`, and get their names when all of them are
//! on disk. What a killed process has left there is overwritten by the next one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layout::Piece;

/// The most pieces of one archive.
const MOST_PIECES: usize = 999;

/// Returns the name of a piece, from 1.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number:03}"));
    name.into()
}

/// Writes an archive.
pub(crate) struct PieceWriter {
    path: PathBuf,
    /// The most bytes of a piece, if it is cut.
    limit: Option<u64>,
    /// Those that are complete, and the one that is being written.
    files: Vec<(PathBuf, File)>,
    /// How many bytes fit in the last one.
    left: u64,
}

impl PieceWriter {
    /// Begins an archive. With a limit it is cut into files of so many bytes at most.
    pub(crate) fn new(path: &Path, limit: Option<u64>) -> io::Result<Self> {
        let mut writer = Self { path: path.to_owned(), limit, files: Vec::new(), left: 0 };
        writer.begin()?;
        Ok(writer)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.files.len() == MOST_PIECES {
            let reason = format!("there would be more than {MOST_PIECES} pieces");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let path = match self.limit {
            Some(_) => numbered(&self.path, self.files.len() + 1),
            None => self.path.clone(),
        };
        let mut partial = path.clone().into_os_string();
        partial.push(".part");
        let file = File::options().write(true).create(true).truncate(false).open(&partial)?;
        // Two at once would spoil the file.
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing it")
            }
            fs::TryLockError::Error(error) => error,
        })?;
        file.set_len(0)?;
        self.left = self.limit.unwrap_or(u64::MAX);
        self.files.push((path, file));
        Ok(())
    }

    /// Gives the files their names, and returns them. Pieces of an archive that was there before are
    /// removed.
    pub(crate) fn finish(self) -> io::Result<Vec<PathBuf>> {
        for (_, file) in &self.files {
            file.sync_all()?;
        }
        let old = existing(&self.path);
        for (path, _) in &self.files {
            let mut partial = path.clone().into_os_string();
            partial.push(".part");
            fs::rename(partial, path)?;
        }
        let new: Vec<PathBuf> = self.files.iter().map(|(path, _)| path.clone()).collect();
        for path in old.into_iter().filter(|path| !new.contains(path)) {
            fs::remove_file(path)?;
        }
        Ok(new)
    }

    /// Removes what was written.
    pub(crate) fn abandon(self) {
        for (path, _) in self.files {
            let mut partial = path.into_os_string();
            partial.push(".part");
            let _ = fs::remove_file(partial);
        }
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.begin()?;
        }
        let most = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let Some((_, file)) = self.files.last_mut() else {
            return Ok(0);
        };
        let count = file.write(bytes.get(..most).unwrap_or_default())?;
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the files of an archive: the one with this name, or its pieces. Of a piece those beside it
/// are meant as well.
pub(crate) fn existing(path: &Path) -> Vec<PathBuf> {
    if path.is_file() && path.extension().is_none_or(|extension| extension != "001") {
        return vec![path.to_owned()];
    }
    let path = if path.extension().is_some_and(|extension| extension == "001") {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    let numbers = (1..=MOST_PIECES).map(|number| numbered(&path, number));
    numbers.take_while(|path| path.is_file()).collect()
}

/// The files of an archive in a row.
#[derive(Debug)]
pub(crate) struct PieceReader {
    /// Where each begins.
    files: Vec<(u64, Arc<File>)>,
    length: u64,
}

impl PieceReader {
    pub(crate) fn open(paths: &[PathBuf]) -> io::Result<Self> {
        let (mut files, mut length) = (Vec::new(), 0);
        for path in paths {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            files.push((length, Arc::new(file)));
            length += size;
        }
        Ok(Self { files, length })
    }

    /// Returns where a part of the archive is, as pieces of something that begins at `at` in it.
    pub(crate) fn locate(&self, start: u64, length: u64, mut at: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut start, end) = (start, start.saturating_add(length));
        for (index, (first, file)) in self.files.iter().enumerate() {
            let last = self.files.get(index + 1).map_or(self.length, |(next, _)| *next);
            if start >= end || start >= last {
                continue;
            }
            let length = end.min(last) - start;
            pieces.push(Piece { at, length, file: Arc::clone(file), offset: start - first });
            at += length;
            start += length;
        }
        pieces
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}
