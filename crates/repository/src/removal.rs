// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Removing what the limits want to go.
//!
//! Between the verdict and the removal an image can be started, pinned or given to another
//! label. So everything is looked at again under the lock, one label after the other, and a
//! kill between two of them leaves the rest as it was.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cabane_label::{Digest, Label};

use crate::in_use::{Observer, last_read};
use crate::remove::Removed;
use crate::retention::{Fate, Kept, Retention, Verdict};
use crate::writer::Writer;
use crate::{Error, Repository, bases};

/// What was removed, and what turned out to be needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// What is no more.
    pub removed: Removed,
    /// How many bytes the images had that are no more.
    pub bytes: u64,
    /// The labels that stay after all, since something has changed.
    pub spared: Vec<(Label, Kept)>,
}

/// The images on which those are built that are to stay.
struct NeededByOthers<'a> {
    /// What is to go.
    goes: BTreeSet<(&'a Label, &'a Digest)>,
    /// The images whose metadata were read.
    read: BTreeSet<Digest>,
    bases: BTreeSet<Digest>,
}

impl<'a> NeededByOthers<'a> {
    fn of(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let goes = verdicts.map(|one| (&one.label, &one.digest)).collect();
        Self { goes, read: BTreeSet::new(), bases: BTreeSet::new() }
    }

    /// Returns them as they are now. One that was needed before is taken to be needed still.
    fn now(&mut self, repository: &Repository) -> Result<&BTreeSet<Digest>, Error> {
        for record in repository.records()? {
            if !self.goes.contains(&(&record.label, &record.digest))
                && self.read.insert(record.digest.clone())
            {
                self.bases.extend(bases::of_image(repository.layout(), &record.digest));
            }
        }
        Ok(&self.bases)
    }
}

/// Returns the bytes that are freed with a file; none if it has a second name, as a pack.
fn own_bytes(image: &Path) -> u64 {
    fs::metadata(image).ok().filter(|found| found.nlink() == 1).map_or(0, |found| found.len())
}

impl Repository {
    /// Removes what has been found to be in excess, and calls `tell` after each label.
    pub fn remove_excess(
        &self,
        retention: &Retention,
        tell: &mut dyn FnMut(&Verdict),
    ) -> Result<Cleared, Error> {
        let mut cleared = Cleared::default();
        // Who clears up wants the space of images, too, that have lost their label.
        let mut layout = self.layout().clone();
        layout.grace = layout.grace.min(retention.spare);
        let mut writer = Writer::begin(&layout)?;
        let observer = Observer::new(self.layout());
        let goes = |one: &&Verdict| matches!(one.fate, Fate::Removed(_));
        let mut needed = NeededByOthers::of(retention.labels.iter().filter(goes));
        for verdict in retention.labels.iter().filter(goes) {
            writer.lock();
            // An image that was added since may be built on this one.
            if needed.now(self)?.contains(&verdict.digest) {
                cleared.spared.push((verdict.label.clone(), Kept::Base));
                continue;
            }
            if let Some(kept) = self.what_speaks_against(verdict, retention, &observer)? {
                cleared.spared.push((verdict.label.clone(), kept));
                continue;
            }
            let refs = writer.refs_of(&verdict.label)?;
            // It is gone, or belongs to another image now.
            if refs.last() != Some(&verdict.record) {
                continue;
            }
            let freed = own_bytes(&layout.image(&verdict.digest));
            let images = writer.retire(&writer.without_bases(refs))?;
            cleared.removed.records.push(verdict.record.clone());
            if images.contains(&verdict.digest) {
                cleared.bytes += freed;
            }
            cleared.removed.images.extend(images);
            tell(verdict);
            // Large files take their time, and others want to write, too.
            writer.unlock();
        }
        writer.lock();
        writer.write_index();
        cleared.bytes += writer.collect_packs();
        Ok(cleared)
    }

    fn what_speaks_against(
        &self,
        verdict: &Verdict,
        retention: &Retention,
        observer: &Observer<'_>,
    ) -> Result<Option<Kept>, Error> {
        if self.pins()?.contains(&verdict.label) {
            return Ok(Some(Kept::Pinned));
        }
        let digest = &verdict.digest;
        Ok(match last_read(self.layout(), digest) {
            Err(_) if !self.has_image(digest) => None,
            Err(_) => Some(Kept::Closed),
            Ok(read) if read > verdict.used && read > retention.now => Some(Kept::Recent),
            Ok(_) => match observer.is_in_use(digest) {
                Ok(false) => None,
                Ok(true) => Some(Kept::InUse),
                Err(_) => Some(Kept::Closed),
            },
        })
    }
}
