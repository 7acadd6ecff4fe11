// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Clearing up after writers that were killed. Every writer does it before its own work.

use std::path::Path;

use cabane_label::Digest;

use crate::incoming::{Lock, try_lock};
use crate::locks::kernel_id;
use crate::staging::{Resumers, Temporary, is_idle, is_old, noted_orphans};
use crate::writer::Writer;
use crate::{Error, Repaired, disk};

impl Writer<'_> {
    /// Clears up under the lock, and returns what was removed and restored. What belongs to others
    /// and may not be touched is left.
    pub(crate) fn sweep(&self) -> Result<Repaired, Error> {
        let tmp = self.layout.tmp();
        let mut swept = Repaired::default();
        let names = disk::names(&tmp).map_err(Error::io("read", &tmp))?;
        for name in names.iter().filter(|name| *name != ".lock") {
            let path = tmp.join(name);
            match Temporary::from_name(name) {
                Temporary::Staging(owner) if owner.is_gone() => {
                    self.sweep_staging(&path, &mut swept);
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
                Temporary::Incoming(digest, resumers) => {
                    self.sweep_download(&path, &digest, &resumers, &mut swept);
                }
                Temporary::Unknown if is_old(&path) => self.sweep_away(&path, &mut swept),
                Temporary::Staging(_) | Temporary::Unknown => {}
            }
        }
        swept.removed.extend(self.retire_overtaken()?);
        Ok(swept)
    }

    fn sweep_staging(&self, path: &Path, swept: &mut Repaired) {
        for digest in noted_orphans(path) {
            match self.collect(&digest) {
                Ok(true) => swept.removed.push(digest),
                Ok(false) => {}
                // The note must stay until someone can do it.
                Err(_) => return,
            }
        }
        self.sweep_away(path, swept);
    }

    /// Removes a download that no one goes on with, or whose image has come another way.
    fn sweep_download(
        &self,
        path: &Path,
        digest: &Digest,
        resumers: &Resumers,
        swept: &mut Repaired,
    ) {
        let may_go = match resumers {
            Resumers::One(owner) => owner.is_gone(),
            // A lock says nothing that was taken on another host.
            Resumers::Kernel(kernel) if kernel_id().as_ref() != Some(kernel) => is_idle(path),
            Resumers::All | Resumers::Kernel(_) => {
                let lock = try_lock(path, false);
                let may_go = match &lock {
                    Lock::Held => false,
                    Lock::Taken(_) => self.layout.has_image(digest) || is_idle(path),
                    Lock::Gone | Lock::None => is_idle(path),
                };
                if may_go {
                    self.sweep_away(path, swept);
                }
                // The lock was held until the place was away.
                return drop(lock);
            }
        };
        if may_go {
            self.sweep_away(path, swept);
        }
    }

    fn sweep_away(&self, path: &Path, swept: &mut Repaired) {
        if self.discard(path).is_ok() {
            swept.leftovers += 1;
        }
    }

    /// Returns whether a ref names an image that is not in its place.
    fn is_needed(&self, digest: &Digest) -> Result<bool, Error> {
        Ok(!self.layout.has_image(digest) && self.is_named(digest)?)
    }
}
