// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Digests as container images write them, and sums of what is read and written.

use std::io::{self, Read, Write};

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

/// Reads `sha256:` and 64 digits.
#[must_use]
pub fn parse(text: &str) -> Option<Digest> {
    text.strip_prefix("sha256:")?.parse().ok()
}

/// Writes a digest as it is in documents.
#[must_use]
pub fn written(digest: &Digest) -> String {
    format!("sha256:{}", digest.as_str())
}

/// Returns the digest of bytes.
#[must_use]
pub fn of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(Sha256::digest(bytes).into())
}

/// Reads to the end, and returns the digest of everything.
///
/// # Errors
///
/// Those of reading.
pub fn of_stream(stream: impl Read) -> io::Result<Digest> {
    let (digest, ..) = Summed::new(stream).finish()?;
    Ok(digest.unwrap_or_else(|| of(&[])))
}

/// Sums what is read through it, or only counts it.
pub(crate) struct Summed<R> {
    pub(crate) inner: R,
    sum: Option<Sha256>,
    /// How much was read.
    pub(crate) count: u64,
}

impl<R: Read> Summed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, sum: Some(Sha256::new()), count: 0 }
    }

    /// What is read is summed elsewhere.
    pub(crate) fn counted(inner: R) -> Self {
        Self { inner, sum: None, count: 0 }
    }

    /// Reads to the end, and returns the digest of everything if it was summed, how much it was,
    /// and the source.
    pub(crate) fn finish(mut self) -> io::Result<(Option<Digest>, u64, R)> {
        let mut buffer = vec![0; 64 * 1024];
        while self.read(&mut buffer)? > 0 {}
        let digest = self.sum.map(|sum| Digest::from_bytes(sum.finalize().into()));
        Ok((digest, self.count, self.inner))
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(sum) = &mut self.sum {
            sum.update(buffer.get(..read).unwrap_or_default());
        }
        self.count += read as u64;
        Ok(read)
    }
}

/// Sums and counts what is written through it.
pub(crate) struct Summing<W> {
    inner: W,
    sum: Sha256,
    count: u64,
}

impl<W: Write> Summing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, sum: Sha256::new(), count: 0 }
    }

    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.inner.flush()?;
        Ok((Digest::from_bytes(self.sum.finalize().into()), self.count))
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
