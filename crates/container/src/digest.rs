// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Digests as container images write them, and sums of what is read.

use std::io::{self, Read};

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

/// Reads `sha256:` and 64 digits.
#[must_use]
pub fn parse(text: &str) -> Option<Digest> {
    text.strip_prefix("sha256:")?.parse().ok()
}

/// Writes a digest as it stands in documents.
#[must_use]
pub fn written(digest: &Digest) -> String {
    format!("sha256:{}", digest.as_str())
}

/// Returns the digest of bytes.
#[must_use]
pub fn of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(Sha256::digest(bytes).into())
}

/// Sums what is read through it.
pub(crate) struct Summed<R> {
    inner: R,
    sum: Sha256,
    count: u64,
}

impl<R: Read> Summed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            sum: Sha256::new(),
            count: 0,
        }
    }

    /// Reads to the end, and returns the digest of everything, how much it was, and the source.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64, R)> {
        let mut buffer = vec![0; 64 * 1024];
        while self.read(&mut buffer)? > 0 {}
        let digest = Digest::from_bytes(self.sum.finalize().into());
        Ok((digest, self.count, self.inner))
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sum.update(buffer.get(..read).unwrap_or_default());
        self.count += read as u64;
        Ok(read)
    }
}
