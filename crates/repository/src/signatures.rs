// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The file beside an image in which its signatures are kept. What is in it is nothing to a
//! repository: it is kept, and found again, and goes when the image goes.

use std::path::{Path, PathBuf};

use cabane_label::Digest;

use crate::tree::put;
use crate::writer::Writer;
use crate::{Error, Repository, disk};

/// The name of the file.
pub(crate) const SIGNATURES: &str = "signatures";

pub(crate) fn signatures_file(image: &Path) -> PathBuf {
    image.with_file_name(SIGNATURES)
}

/// Reads what is kept of the signatures of the image in this file; `None` where nothing is.
///
/// # Errors
///
/// A file that cannot be read, or that is larger than `limit`.
pub fn signatures_beside(image: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let path = signatures_file(image);
    disk::if_there(disk::read(&path, limit)).map_err(Error::io("read", &path))
}

impl Repository {
    /// Keeps the signatures of an image, in the place of those that were kept before.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchImage`], or that nothing can be written there.
    pub fn keep_signatures(&self, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        keep(&writer, digest, bytes)
    }
}

/// Writes the file, at once or not at all.
pub(crate) fn keep(writer: &Writer<'_>, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
    let new = writer.staging.free_name(SIGNATURES);
    disk::write_new(&new, bytes).map_err(Error::io("write", &new))?;
    put(writer, digest, &new, SIGNATURES)
}
