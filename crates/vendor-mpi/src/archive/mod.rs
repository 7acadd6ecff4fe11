// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages of distributions, read: what is in them, and the bytes of some of it.
//!
//! Nothing of a package is believed. No name of a package ever becomes a path on this
//! machine, nothing is run that it contains, and what does not belong into the package of a
//! vendor refuses the whole package: paths that lead out of it, devices, sizes beyond
//! all measure.

mod ar;
mod cpio;
mod decompress;
mod path;
mod rpm;
mod tarball;

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use cabane_label::escape;

pub(crate) use path::{checked, resolve};

/// Why a package cannot be read, or is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// It is neither a Debian package nor an RPM.
    #[error("it is neither a Debian package nor an RPM")]
    NotAPackage,
    /// It is written in a way that is not known here.
    #[error("{0}, which is not understood")]
    Unknown(&'static str),
    /// It is not what it says to be.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// Something is in it that does not belong there.
    #[error("`{}` {}", escape(.0), .1)]
    Refused(String, &'static str),
    /// It holds more than a package may.
    #[error("it holds more than {} files or {} bytes", .0.entries, .0.bytes)]
    TooLarge(Limits),
    /// It cannot be read, or a decompressor does not understand it.
    #[error("it cannot be read to its end")]
    Io(#[from] io::Error),
}

impl ArchiveError {
    pub(crate) fn refused(path: &[u8], what: &'static str) -> Self {
        Self::Refused(String::from_utf8_lossy(path).into_owned(), what)
    }
}

/// How much a package may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Files, directories and links.
    pub(crate) entries: u64,
    /// Bytes, when it is unpacked.
    pub(crate) bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 16 << 30 }
    }
}

/// Something in a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path, without a leading `/`, without `.` and `..`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File {
        size: u64,
        is_executable: bool,
        /// Other names of the same file have the same number here.
        inode: Option<u64>,
    },
    /// Another name of a file that came before.
    HardLink(String),
    /// What the link says.
    Link(String),
    Directory,
}

/// Who is shown what is in a package, with the bytes of each file.
pub(crate) type Visitor<'v> = dyn FnMut(&Entry, &mut dyn Read) -> Result<(), ArchiveError> + 'v;

/// Shows everything in a package.
pub(crate) fn visit(
    file: &mut (impl Read + Seek),
    limits: Limits,
    visitor: &mut Visitor<'_>,
) -> Result<(), ArchiveError> {
    let mut counted = Counted { entries: 0, bytes: 0, limits, visitor };
    file.seek(SeekFrom::Start(0))?;
    let mut magic = Vec::new();
    file.by_ref().take(8).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    let file = BufReader::with_capacity(1 << 16, file);
    if magic == ar::MAGIC {
        let data = decompress::decoder(ar::data(file)?, limits.bytes)?;
        tarball::visit(data, &mut counted)
    } else if magic.starts_with(rpm::MAGIC) {
        let payload = decompress::decoder(rpm::payload(file)?, limits.bytes)?;
        cpio::visit(payload, &mut counted)
    } else {
        Err(ArchiveError::NotAPackage)
    }
}

/// Counts what is shown, so that no package can hold more than it may.
struct Counted<'v, 'w> {
    entries: u64,
    bytes: u64,
    limits: Limits,
    visitor: &'v mut Visitor<'w>,
}

impl Counted<'_, '_> {
    fn show(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let size = match entry.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        };
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.entries > self.limits.entries || self.bytes > self.limits.bytes {
            return Err(ArchiveError::TooLarge(self.limits));
        }
        (self.visitor)(entry, content)
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
