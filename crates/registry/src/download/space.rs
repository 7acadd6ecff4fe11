// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether there is space for what a registry says that it will send. Its sizes are not
//! trusted: nothing of such a size is created before this check.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, shown};
use cabane_report::{Kind, Report, Result};

use super::target::PARTIAL;
use crate::Error;
use crate::document::OciDigest;

/// The largest blob: a list of its parts is in memory, and grows with it.
const MAX_BLOB: u64 = 16 << 40;

/// The free space of a directory.
#[derive(Debug)]
pub(crate) struct Space {
    path: PathBuf,
    /// How many bytes are free; none where the file system does not say.
    free: Option<u64>,
}

impl Space {
    pub(crate) fn of(directory: &Path) -> Result<Self, Error> {
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
    pub(crate) fn check(&self, name: &str, digest: &OciDigest, size: u64) -> Result<()> {
        if size > MAX_BLOB {
            let message = format!(
                "{name} cannot be downloaded: its layer {digest} has {size} bytes, and {MAX_BLOB} \
                 is the limit"
            );
            return Err(Report::new(Kind::Registry, message)
                .hinted("the registry is wrong about the size; push the image again".to_owned()));
        }
        self.check_sum(name, digest, size, size)
    }

    /// Fails if there is no space for all layers of an image together.
    pub(super) fn check_all(&self, name: &str, layers: &[(Digest, u64)]) -> Result<()> {
        let sum = layers.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
        match layers.iter().max_by_key(|(_, size)| *size) {
            Some((digest, size)) => self.check_sum(name, &OciDigest(digest.clone()), *size, sum),
            None => Ok(()),
        }
    }

    fn check_sum(&self, name: &str, digest: &OciDigest, size: u64, needed: u64) -> Result<()> {
        let Some(free) = self.free.filter(|free| needed > *free) else {
            return Ok(());
        };
        let message = format!(
            "{name} cannot be downloaded: its largest layer {digest} has {size} bytes, all of it \
             needs {needed} bytes, and {} has {free} bytes free",
            shown(&self.path)
        );
        Err(Report::new(Kind::Failure, message).hinted(
            "free some space, for example with `cabane repo gc`, or name another repository with \
             `--repo`"
                .to_owned(),
        ))
    }
}
