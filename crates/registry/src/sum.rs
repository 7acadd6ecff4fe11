// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The sha256 of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

use crate::Error;

/// Receives how many bytes are there, and of how many.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Sums a file.
///
/// # Errors
///
/// That it cannot be read.
pub fn file(path: &Path, progress: &mut Progress<'_>) -> Result<Digest, Error> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    let mut buffer = vec![0; 1024 * 1024];
    let mut sum = Sha256::new();
    let mut done = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                sum.update(buffer.get(..count).unwrap_or_default());
                done += count as u64;
                progress(done, size);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    Ok(Digest::from_bytes(sum.finalize().into()))
}

/// Sums bytes.
#[must_use]
pub fn bytes(bytes: &[u8]) -> Digest {
    Digest::from_bytes(Sha256::digest(bytes).into())
}

/// Reads, and sums what was read.
pub struct Summed<R> {
    reader: R,
    sum: Sha256,
}

impl<R: Read> Summed<R> {
    /// Sums what is going to be read.
    pub fn new(reader: R) -> Self {
        Self { reader, sum: Sha256::new() }
    }

    /// Returns the sum of what was read.
    pub fn digest(self) -> Digest {
        Digest::from_bytes(self.sum.finalize().into())
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.sum.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
