// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Limits for what layers unpack to. A small layer may decompress to any number of bytes, and
//! a header may announce any size, so neither is trusted.
//!
//! The limit is one for all layers together, in bytes. A ratio would say nothing: files with
//! holes compress as well as an attack does.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::LayerProblem;
use crate::error::Stop;
use crate::progress::Progress;

/// More than this many entries in all layers together are refused.
const MOST_ENTRIES: u64 = 20_000_000;

/// How many bytes all layers of an image may unpack to, by default.
pub const MAX_UNPACKED: u64 = 256 << 30;

/// What is left of the limits while the layers of one image are read.
pub(crate) struct Budget<'p> {
    limit: u64,
    /// The bytes that files are announced to have, with their holes.
    announced: AtomicU64,
    /// The bytes that came out of the decompressors.
    decompressed: AtomicU64,
    entries: AtomicU64,
    progress: &'p dyn Progress,
}

impl<'p> Budget<'p> {
    pub(crate) fn new(limit: u64, progress: &'p dyn Progress) -> Self {
        Self {
            limit,
            announced: AtomicU64::new(0),
            decompressed: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            progress,
        }
    }

    /// Begins anew, for a second reading.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.limit, self.progress)
    }

    /// Counts an entry with a file of a size, which may be 0.
    pub(crate) fn entry(&self, size: u64) -> Result<(), LayerProblem> {
        if self.entries.fetch_add(1, Ordering::Relaxed) >= MOST_ENTRIES {
            return Err(LayerProblem::refused(format!(
                "there are more than {MOST_ENTRIES} entries"
            )));
        }
        let announced = self.announced.load(Ordering::Relaxed).saturating_add(size);
        self.announced.store(announced, Ordering::Relaxed);
        if announced > self.limit {
            return Err(LayerProblem::too_large(announced, self.limit));
        }
        Ok(())
    }

    /// Counts bytes that were decompressed.
    fn decompressed(&self, bytes: u64) -> io::Result<()> {
        if !self.progress.go_on() {
            return Err(io::Error::other(Stop::Interrupted));
        }
        let seen = self.decompressed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Headers and fill are not counted against anyone who is near the limit with files.
        let most = self.limit.saturating_add(self.overhead());
        if seen > most {
            let limit = self.limit;
            return Err(io::Error::other(Stop::TooLarge { seen, limit }));
        }
        Ok(())
    }

    /// What entries may take beside the content of files: headers, long names, and fill.
    fn overhead(&self) -> u64 {
        let entries = self.entries.load(Ordering::Relaxed);
        entries.saturating_mul(8 * 1024).saturating_add(1 << 20)
    }
}

/// Reads what was decompressed, within the limits.
pub(crate) struct Limited<'p, R> {
    pub(crate) inner: R,
    pub(crate) budget: &'p Budget<'p>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.budget.decompressed(read as u64)?;
        Ok(read)
    }
}
