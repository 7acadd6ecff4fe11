// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether there is space for what a registry says that it will send. Its sizes are not
//! trusted: nothing is made of such a size before this was asked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::Digest;

use super::target::PARTIAL;
use crate::Error;
use crate::document::OciDigest;

/// The largest blob: a list of its parts is in memory, and grows with it.
const MAX_BLOB: u64 = 16 << 40;

/// The free space of a directory.
#[derive(Debug)]
pub(super) struct Space {
    path: PathBuf,
    /// How many bytes are free; none where the file system does not say.
    free: Option<u64>,
}

impl Space {
    pub(super) fn of(directory: &Path) -> Result<Self, Error> {
        let found = rustix::fs::statvfs(directory);
        let found = found.map_err(|error| Error::io("read", directory)(error.into()))?;
        // What an attempt that was cut off has left is used.
        let begun = fs::metadata(directory.join(PARTIAL));
        let begun = begun.map_or(0, |found| found.blocks().saturating_mul(512));
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        Ok(Self {
            path: directory.to_owned(),
            free: (found.f_blocks > 0).then(|| free.saturating_add(begun)),
        })
    }

    /// Fails if there is no space for a blob of an image.
    pub(super) fn check(&self, name: &str, digest: &OciDigest, size: u64) -> Result<(), Error> {
        if size > MAX_BLOB {
            return Err(Error::TooLarge {
                name: name.to_owned(),
                digest: digest.to_string(),
                size,
                limit: MAX_BLOB,
            });
        }
        self.check_sum(name, digest, size, size)
    }

    /// Fails if there is no space for all layers of an image together.
    pub(super) fn check_all(&self, name: &str, layers: &[(Digest, u64)]) -> Result<(), Error> {
        let sum = layers.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
        let largest = layers.iter().max_by_key(|(_, size)| *size);
        let Some((digest, size)) = largest else {
            return Ok(());
        };
        self.check_sum(name, &OciDigest(digest.clone()), *size, sum)
    }

    fn check_sum(
        &self,
        name: &str,
        digest: &OciDigest,
        size: u64,
        needed: u64,
    ) -> Result<(), Error> {
        match self.free {
            Some(free) if needed > free => Err(Error::NoSpaceForLayers {
                name: name.to_owned(),
                digest: digest.to_string(),
                size,
                needed,
                free,
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }
}
