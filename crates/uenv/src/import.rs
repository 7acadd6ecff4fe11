// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bringing the images of uenv into a repository of ours.
//!
//! Each image is added like any other, with its digest compared before anyone sees it, and its
//! labels keep the date. What the target holds is not brought again, so that the same import
//! goes on after a kill. The source is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cabane_label::{Digest, Label, LabelPattern, NameMatch};
use cabane_report::Result;
use cabane_repository::{AddRequest, Error, Repository, Transfer};
use jiff::Timestamp;
use serde::Serialize;

use crate::contents::{Contents, Corruption, UenvImage, UenvRepository};
use cabane_uenv_database::refused;

/// What is to be brought, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Import<'a> {
    /// Only the labels that fit.
    pub pattern: Option<&'a LabelPattern>,
    /// Whether a file may get a second name instead of being copied.
    pub link: bool,
    /// Whether labels are taken from other images.
    pub replace: bool,
}

/// Puts the metadata that are in an image into a directory, or says why it cannot.
pub type InnerMeta<'a> = dyn Fn(&Path, &Path) -> Result<(), String> + 'a;

/// Receives which image is brought, how many of its bytes are done and of how many.
pub type ImportProgress<'a> = dyn FnMut(&Label, u64, u64) + 'a;

/// What an import would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// What becomes of each label, sorted.
    pub labels: Vec<Planned>,
    /// How many bytes would be copied.
    pub bytes: u64,
    /// What is left out since it is damaged, as far as can be seen without reading images.
    pub damaged: Vec<Corruption>,
    #[serde(skip)]
    images: Vec<UenvImage>,
}

/// What is to become of a label.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// The label.
    pub label: Label,
    /// Its image.
    pub digest: Digest,
    /// The size of the image.
    pub size: u64,
    /// When the image was made.
    pub date: Timestamp,
    /// What is to become of it.
    pub fate: Fate,
}

/// What is to become of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The image is brought.
    Copied,
    /// The image is there, and gets the label.
    Labelled,
    /// Image and label are there.
    There,
    /// The label belongs to another image there, and stays with it.
    Taken,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The labels that were given.
    pub labels: Vec<Label>,
    /// The images that were brought.
    pub images: BTreeSet<Digest>,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many labels were there before, with the same image.
    pub unchanged: usize,
    /// The labels that belong to another image in the target, and still do.
    pub differing: Vec<Label>,
    /// What was left out.
    pub damaged: Vec<Corruption>,
}

/// Works out what an import would do, into a repository that need not be there yet. Nothing is
/// changed, and no image is read.
///
/// # Errors
///
/// A database that cannot be read, or a target that cannot.
pub fn plan(source: &UenvRepository, target: Option<&Repository>, how: Import<'_>) -> Result<Plan> {
    let Contents { images, damaged } = source.contents()?;
    let records = target.map(Repository::records).transpose()?;
    let there: BTreeMap<Label, Digest> =
        records.unwrap_or_default().into_iter().map(|one| (one.label, one.digest)).collect();
    let fits = |label: &Label| {
        let fits = |pattern: &LabelPattern| pattern.matches(label, NameMatch::Exact);
        how.pattern.is_none_or(fits)
    };
    let mut plan = Plan {
        damaged: damaged
            .into_iter()
            .filter(|one| concerns(one, how.pattern.is_some(), &fits))
            .collect(),
        ..Plan::default()
    };
    for mut image in images {
        image.labels.retain(fits);
        let has = |target: &Repository| target.has_whole_image(&image.digest, image.size);
        let mut is_there = target.is_some_and(has);
        for label in &image.labels {
            let fate = match there.get(label) {
                Some(digest) if *digest == image.digest && is_there => Fate::There,
                Some(digest) if *digest != image.digest && !how.replace => Fate::Taken,
                _ if is_there => Fate::Labelled,
                _ => Fate::Copied,
            };
            if fate == Fate::Copied {
                plan.bytes += image.size;
                is_there = true;
            }
            plan.labels.push(Planned {
                label: label.clone(),
                digest: image.digest.clone(),
                size: image.size,
                date: image.date,
                fate,
            });
        }
        if !image.labels.is_empty() {
            plan.images.push(image);
        }
    }
    plan.labels.sort_by(|one, other| one.label.cmp(&other.label));
    Ok(plan)
}

/// Tells whether a corruption is of interest to who requested some labels only.
fn concerns(corruption: &Corruption, is_chosen: bool, fits: &dyn Fn(&Label) -> bool) -> bool {
    match corruption {
        Corruption::MissingImage { label, .. } => fits(label),
        Corruption::WrongDigest { labels, .. } | Corruption::Unusable { labels, .. } => {
            labels.iter().any(fits)
        }
        Corruption::NoLabel { .. } | Corruption::EmptyRow { .. } | Corruption::BadRow { .. } => {
            !is_chosen
        }
    }
}

/// Brings what has been planned. What is damaged is left out, and the rest is brought.
///
/// # Errors
///
/// Whatever is wrong with the target, such as a full disk.
pub fn import(
    source: &UenvRepository,
    target: &Repository,
    plan: &Plan,
    how: Import<'_>,
    inner_meta: &InnerMeta<'_>,
    progress: &mut ImportProgress<'_>,
) -> Result<Imported> {
    let new = plan.labels.iter().filter(|one| one.fate == Fate::Copied);
    let sizes: Vec<(Digest, u64)> = new.map(|one| (one.digest.clone(), one.size)).collect();
    target.check_space(source.path(), &sizes)?;
    let mut imported = Imported { damaged: plan.damaged.clone(), ..Imported::default() };
    for image in &plan.images {
        let of_image = |one: &&Planned| one.digest == image.digest;
        for planned in plan.labels.iter().filter(of_image) {
            match planned.fate {
                Fate::There => imported.unchanged += 1,
                Fate::Taken => imported.differing.push(planned.label.clone()),
                Fate::Copied | Fate::Labelled => {
                    let errand = Errand { source, target, image, how };
                    match errand.run(&planned.label, inner_meta, progress)? {
                        Outcome::Brought => {
                            imported.bytes += image.size;
                            imported.images.insert(image.digest.clone());
                            imported.labels.push(planned.label.clone());
                        }
                        Outcome::Labelled => imported.labels.push(planned.label.clone()),
                        Outcome::Damaged(corruption) => {
                            imported.damaged.push(corruption);
                            // Its other labels would give the same answer.
                            break;
                        }
                    }
                }
            }
        }
    }
    imported.labels.sort();
    imported.differing.sort();
    imported.damaged.sort();
    Ok(imported)
}

enum Outcome {
    Brought,
    Labelled,
    Damaged(Corruption),
}

/// One image that is to be brought.
struct Errand<'a> {
    source: &'a UenvRepository,
    target: &'a Repository,
    image: &'a UenvImage,
    how: Import<'a>,
}

impl Errand<'_> {
    fn run(
        &self,
        label: &Label,
        inner_meta: &InnerMeta<'_>,
        progress: &mut ImportProgress<'_>,
    ) -> Result<Outcome> {
        let image = self.image;
        if self.target.has_whole_image(&image.digest, image.size) {
            let (date, replace) = (Some(image.date), self.how.replace);
            match self.target.tag_since(&image.digest, label.clone(), date, replace) {
                Ok(_) => return Ok(Outcome::Labelled),
                // Someone removes it at this moment.
                Err(Error::NoSuchImage { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.import(label, inner_meta, progress)
    }

    fn import(
        &self,
        label: &Label,
        inner_meta: &InnerMeta<'_>,
        progress: &mut ImportProgress<'_>,
    ) -> Result<Outcome> {
        let image = self.image;
        let parent = std::env::temp_dir();
        let place =
            tempfile::tempdir_in(&parent).map_err(refused("make a directory in", &parent))?;
        let meta = match &image.meta {
            Some(meta) => meta.as_path(),
            None => match inner_meta(&image.path, place.path()) {
                Ok(()) => place.path(),
                Err(reason) => return Ok(Outcome::Damaged(self.unusable(reason))),
            },
        };
        let request = AddRequest {
            label: label.clone(),
            image: &image.path,
            meta,
            how: if self.how.link { Transfer::Share } else { Transfer::Copy },
            replace: self.how.replace,
        };
        let mut report = |done, total| progress(label, done, total);
        match self.target.import(&request, &image.digest, image.date, &mut report) {
            Ok(_) => Ok(Outcome::Brought),
            Err(Error::OtherImage { found, .. }) => Ok(Outcome::Damaged(Corruption::WrongDigest {
                labels: image.labels.clone(),
                digest: image.digest.clone(),
                found,
            })),
            Err(error) if error.is_of_source(self.source.path()) => {
                Ok(Outcome::Damaged(self.unusable(reason(&error))))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn unusable(&self, reason: String) -> Corruption {
        Corruption::Unusable {
            labels: self.image.labels.clone(),
            digest: self.image.digest.clone(),
            reason,
        }
    }
}

/// Writes an error and what it is due to on one line.
fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
