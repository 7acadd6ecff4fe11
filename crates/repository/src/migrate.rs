// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copying everything in a repository into another one.
//!
//! Each image is added like any other, so that a kill costs no more than the image that was
//! being copied: the next attempt finds the others in their places.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::{Digest, Label};

use crate::add::Parcel;
use crate::repository::read_meta_directory;
use crate::signatures::{SIGNATURES, signatures_file};
use crate::transfer::Source;
use crate::writer::Writer;
use crate::{AddRequest, Error, Record, Repository, Transfer, disk};

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
#[non_exhaustive]
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

/// Is told which label is copied, how many bytes are done, and of how many.
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
            return Err(Error::SameRepository {
                path: self.path().to_owned(),
            });
        }
        let (records, there) = (self.records()?, target.records()?);
        let there: BTreeMap<Label, Digest> = there
            .into_iter()
            .map(|one| (one.label, one.digest))
            .collect();
        if !how.sync {
            refuse_others(target, &records, &there)?;
        }
        self.check_room(target, &records)?;
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
            bring(self, target, record, how, progress)
        } else {
            target
                .name_again(record, how.replace)
                .map(drop)
                .map_err(Failure::of_target)
        };
        match outcome {
            Ok(()) => {
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

    /// Finds out before a long copy that there is no room for it.
    fn check_room(&self, target: &Self, records: &[Record]) -> Result<(), Error> {
        let device = |one: &Self| fs::metadata(one.path()).map(|found| found.dev()).ok();
        if device(self) == device(target) {
            // Perhaps nothing is copied at all.
            return Ok(());
        }
        let missing: BTreeMap<&Digest, u64> = records
            .iter()
            .filter(|one| !target.has_image(&one.digest))
            .map(|one| (&one.digest, one.size))
            .collect();
        let (need, path) = (missing.values().sum::<u64>(), target.path());
        let free = disk::free_space(path).map_err(Error::io("inspect", path))?;
        if need <= free {
            return Ok(());
        }
        Err(Error::NoSpace {
            path: path.to_owned(),
            need: Some(need),
            free: Some(free),
        })
    }
}

/// Why one label could not be copied.
enum Failure {
    /// The others can still be.
    OfSource(String),
    /// So it would go on.
    OfTarget(Error),
}

impl Failure {
    fn of_target(error: Error) -> Self {
        Self::OfTarget(error)
    }

    /// Judges an error that came up while the image of the source was read.
    fn of_image(error: Error, source: &Repository) -> Self {
        let is_of_source = match &error {
            Error::Io { path, .. } | Error::Image { path, .. } => path.starts_with(source.path()),
            Error::Meta { .. } | Error::MetaEntry { .. } => true,
            _ => false,
        };
        if !is_of_source {
            return Self::OfTarget(error);
        }
        match &error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::OfSource("it was removed meanwhile".to_owned())
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Self::OfSource("the image is closed to you".to_owned())
            }
            _ => Self::OfSource(error.to_string()),
        }
    }
}

fn bring(
    source: &Repository,
    target: &Repository,
    record: &Record,
    how: Migration,
    progress: &mut MigrationProgress<'_>,
) -> Result<(), Failure> {
    let (image, meta) = (
        source.image_path(&record.digest),
        source.meta_path(&record.digest),
    );
    let of_image = |error| Failure::of_image(error, source);
    let opened = Source::open(&image).map_err(of_image)?;
    let known = read_meta_directory(&meta).map_err(of_image)?;
    let request = AddRequest {
        label: record.label.clone(),
        image: &image,
        meta: &meta,
        how: Transfer::Share,
        replace: how.replace,
    };
    let mut writer = Writer::open(target.layout()).map_err(Failure::OfTarget)?;
    writer.lock();
    writer.sweep().map_err(Failure::OfTarget)?;
    writer.unlock();
    let mut report = |done, total| progress(record, done, total);
    let parcel = Parcel::pack(&writer, &opened, &request, &mut report).map_err(of_image)?;
    if parcel.image.digest != record.digest {
        return Err(Failure::OfSource("its content has changed".to_owned()));
    }
    bring_signatures(&image, &parcel.directory);
    writer.lock();
    parcel
        .publish_from(&writer, record, how.replace, known.as_ref())
        .map(drop)
        .map_err(Failure::OfTarget)
}

/// Takes what is known of the signatures along, and the time of the image, to which it refers.
/// Where that fails, the image is one that was added by hand.
fn bring_signatures(image: &Path, directory: &Path) {
    let _ = fs::copy(signatures_file(image), directory.join(SIGNATURES));
    if let (Ok(found), Ok(new)) = (fs::metadata(image), disk::open(&directory.join("image"))) {
        let _ = found.modified().and_then(|time| new.set_modified(time));
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
        Some(label) => Err(Error::OtherLabels {
            path: target.path().to_owned(),
            label: Box::new(label.clone()),
        }),
    }
}
