// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copying everything in a repository into another one.
//!
//! Each image is added like any other, so that a kill costs no more than the image that was
//! being copied: the next attempt finds the others in their places.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use cabane_label::{Digest, Label, shown};

use crate::{AddRequest, Error, Record, Repository, Transfer};

/// How a repository is copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Migration {
    /// Whether the target may hold labels that the source has not.
    pub sync: bool,
    /// Whether the target's labels are taken from other images.
    pub replace: bool,
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// The labels that were given.
    pub labels: Vec<Label>,
    /// The images that were brought.
    pub images: BTreeSet<Digest>,
    /// How many labels were there before, with the same image.
    pub unchanged: usize,
    /// The labels that belong to another image in the target, and still do.
    pub differing: Vec<Label>,
    /// The labels that could not be copied, and why.
    pub failed: Vec<(Label, String)>,
}

/// Receives which label is copied, how many bytes are done, and of how many.
pub type MigrationProgress<'a> = dyn FnMut(&Record, u64, u64) + 'a;

impl Repository {
    /// Copies all labels, their images and the pins into another repository.
    ///
    /// Where the file systems allow it, images are not copied but share their blocks, or are
    /// one file with two names.
    pub fn migrate_to(
        &self,
        target: &Self,
        how: Migration,
        progress: &mut MigrationProgress<'_>,
    ) -> Result<Migrated, Error> {
        if is_same(self, target) {
            let message = format!("{} cannot be copied into itself", shown(self.path()));
            return Err(Error::Refused { message, hint: None });
        }
        let (records, there) = (self.records()?, target.records()?);
        let there: BTreeMap<Label, Digest> =
            there.into_iter().map(|one| (one.label, one.digest)).collect();
        if !how.sync {
            refuse_others(target, &records, &there)?;
        }
        let sizes: Vec<_> = records.iter().map(|one| (one.digest.clone(), one.size)).collect();
        target.check_space(self.path(), &sizes)?;
        let mut migrated = Migrated::default();
        for record in &records {
            match there.get(&record.label) {
                Some(digest) if *digest == record.digest => migrated.unchanged += 1,
                Some(_) if !how.replace => migrated.differing.push(record.label.clone()),
                _ => self.migrate_one(target, record, how, progress, &mut migrated)?,
            }
        }
        let pins = self.pins()?;
        for record in records.iter().filter(|one| pins.contains(&one.label)) {
            let same = target.by_label(&record.label)?;
            if same.is_some_and(|same| same.digest == record.digest) {
                target.pin(&record.label)?;
            }
        }
        self.copy_followed(target)?;
        Ok(migrated)
    }

    fn migrate_one(
        &self,
        target: &Self,
        record: &Record,
        how: Migration,
        progress: &mut MigrationProgress<'_>,
        migrated: &mut Migrated,
    ) -> Result<(), Error> {
        let is_new = !target.has_image(&record.digest);
        let outcome = if is_new {
            let request = AddRequest {
                label: record.label.clone(),
                image: &self.plain_image(&record.digest)?,
                meta: &self.meta_path(&record.digest),
                how: Transfer::Share,
                replace: how.replace,
            };
            let mut report = |done, total| progress(record, done, total);
            let brought = target.import(&request, &record.digest, record.date, &mut report);
            brought.map_err(|error| Failure::of(error, self))
        } else {
            let (label, date) = (record.label.clone(), Some(record.date));
            let tagged = target.tag_since(&record.digest, label, date, how.replace);
            tagged.map_err(Failure::OfTarget)
        };
        match outcome {
            Ok(_) => {
                migrated.labels.push(record.label.clone());
                if is_new {
                    migrated.images.insert(record.digest.clone());
                }
            }
            Err(Failure::OfTarget(error)) => return Err(error),
            Err(Failure::OfSource(reason)) => {
                migrated.failed.push((record.label.clone(), reason));
            }
        }
        Ok(())
    }
}

/// Why a label was not copied.
enum Failure {
    /// The others can still be.
    OfSource(String),
    /// So it would go on.
    OfTarget(Error),
}

impl Failure {
    fn of(error: Error, source: &Repository) -> Self {
        if !error.is_of_source(source.path()) {
            return Self::OfTarget(error);
        }
        Self::OfSource(match &error {
            Error::OtherImage { .. } => "its content has changed".to_owned(),
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "it was removed meanwhile".to_owned()
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "the image is closed to you".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

fn is_same(one: &Repository, other: &Repository) -> bool {
    let real = |repository: &Repository| fs::canonicalize(repository.path()).ok();
    real(one).is_some() && real(one) == real(other)
}

/// Refuses a target that is more than a part of the source.
fn refuse_others(
    target: &Repository,
    records: &[Record],
    there: &BTreeMap<Label, Digest>,
) -> Result<(), Error> {
    let labels: BTreeSet<&Label> = records.iter().map(|one| &one.label).collect();
    match there.keys().find(|label| !labels.contains(label)) {
        None => Ok(()),
        Some(label) => Err(Error::Refused {
            message: format!(
                "the repository {} has labels of its own, such as `{label}`",
                shown(target.path())
            ),
            hint: Some("`--sync` adds to it what it does not have".to_owned()),
        }),
    }
}
