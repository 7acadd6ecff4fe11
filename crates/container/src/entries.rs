// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading a directory tree that becomes a layer.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Stat};

/// In a layer, a name that begins like this says that another one is gone.
pub(crate) const HIDES: &[u8] = b".wh.";

/// Returns the names in a directory in their order, without `.` and `..`.
pub(crate) fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let entries = Dir::read_from(directory)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let mut entries: Vec<CString> = entries.collect::<io::Result<_>>()?;
    entries.retain(|entry| !matches!(entry.to_bytes(), b"." | b".."));
    entries.sort();
    Ok(entries)
}

/// Refuses a name that would hide another file in a layer.
pub(crate) fn refuse_hiding(entry: &CStr) -> io::Result<()> {
    if !entry.to_bytes().starts_with(HIDES) {
        return Ok(());
    }
    let message = "in a container image, a file with this name would hide another file";
    Err(io::Error::other(message))
}

/// The first names of files that have several.
#[derive(Default)]
pub(crate) struct Links(HashMap<(u64, u64), Vec<u8>>);

impl Links {
    /// Returns the first name of a file. `None` if `path` is its first or its only name.
    pub(crate) fn first(&mut self, found: &Stat, path: &[u8]) -> Option<&[u8]> {
        let place = (found.st_dev, found.st_ino);
        if found.st_nlink > 1 && !self.0.contains_key(&place) {
            self.0.insert(place, path.to_vec());
            return None;
        }
        self.0.get(&place).map(Vec::as_slice)
    }
}

/// Names the file that an error is about, once.
pub(crate) fn about(name: &[u8], error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe || error.to_string().starts_with('/') {
        return error;
    }
    let name = crate::layer::shown(name);
    io::Error::new(error.kind(), format!("/{name}: {error}"))
}
