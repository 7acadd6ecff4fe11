// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Clearing up after writers that were killed. Every writer does it before its own work.

use std::path::Path;

use cabane_label::Digest;

use crate::workshop::{Temporary, is_old, noted_orphans};
use crate::writer::Writer;
use crate::{Error, disk};

/// What was found and done.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// How many temporary files and directories were removed.
    pub(crate) leftovers: usize,
    /// The images that a killed writer had taken away and that are needed.
    pub(crate) restored: Vec<Digest>,
    /// The images that a killed writer had left without a ref.
    pub(crate) removed: Vec<Digest>,
}

impl Writer<'_> {
    /// Clears up under the lock. What belongs to others and may not be touched is left.
    pub(crate) fn sweep(&self) -> Result<Swept, Error> {
        let tmp = self.layout.tmp();
        let mut swept = Swept::default();
        let names = disk::names(&tmp).map_err(Error::io("read", &tmp))?;
        for name in names.iter().filter(|name| *name != ".lock") {
            let path = tmp.join(name);
            match Temporary::from_name(name) {
                Temporary::Workshop(owner) if owner.is_gone() => {
                    self.sweep_workshop(&path, &mut swept);
                }
                Temporary::Trash(digest, owner) => {
                    if self.is_needed(&digest)? {
                        if self.put_back(&digest) {
                            swept.restored.push(digest);
                        }
                    } else if owner.is_gone() {
                        self.sweep_away(&path, &mut swept);
                    }
                }
                Temporary::Unknown if is_old(&path) => self.sweep_away(&path, &mut swept),
                Temporary::Workshop(_) | Temporary::Unknown => {}
            }
        }
        swept.removed.extend(self.retire_overtaken()?);
        Ok(swept)
    }

    fn sweep_workshop(&self, path: &Path, swept: &mut Swept) {
        for digest in noted_orphans(path) {
            match self.collect(&digest) {
                Ok(true) => swept.removed.push(digest),
                Ok(false) => {}
                // The note must stay until somebody can do it.
                Err(_) => return,
            }
        }
        self.sweep_away(path, swept);
    }

    fn sweep_away(&self, path: &Path, swept: &mut Swept) {
        if self.discard(path).is_ok() {
            swept.leftovers += 1;
        }
    }

    /// Returns whether a ref names an image that is not in its place.
    fn is_needed(&self, digest: &Digest) -> Result<bool, Error> {
        Ok(!self.layout.image(digest).exists() && self.is_named(digest)?)
    }
}
