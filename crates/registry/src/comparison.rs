// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of a namespace beside what the registry has, and its repair.
//!
//! The list is what pushes, copies and deletions wrote. What other tools did, and what was killed in
//! between, is only in the registry.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{Digest, Label, Namespace};

use crate::contents::Packages;
use crate::entry::Entry;
use crate::image::Listed;
use crate::index::Changer;
use crate::parallel::side_by_side;
use crate::{ErrorKind, Listing, Place, Progress, Registry, Result, Wanted};

/// A label under which the list has another image than the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The label.
    pub place: Place,
    /// The image that the list has under it, if any.
    pub listed: Option<Digest>,
    /// The image that the registry has under it, if any.
    pub found: Option<Digest>,
}

/// What a registry has, and where its list differs.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The images of the registry, sorted by label.
    pub images: Vec<Listed>,
    /// Where the list differs, sorted by label.
    pub differences: Vec<Difference>,
    /// Whether there is a list.
    pub has_list: bool,
    /// Whether the registry listed its repositories. Otherwise only labels in the list were looked at.
    pub is_complete: bool,
}

/// The lines of the list, as tags, by label.
type Lines = BTreeMap<Label, Vec<String>>;

impl Registry {
    /// Asks the registry for each image, and compares its answers with the list. `progress` counts
    /// images.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::NoListing`] where there is neither a list nor an answer.
    pub fn compare_list(
        &self,
        wanted: &Wanted<'_>,
        listing: Listing,
        progress: &mut Progress<'_>,
    ) -> Result<Comparison> {
        let repositories = match listing {
            Listing::Index => None,
            Listing::Auto | Listing::Catalog => self.catalog()?,
        };
        let lines = self.lines(wanted.namespace)?;
        if repositories.is_none() && lines.is_empty() && listing != Listing::Index {
            return Err(self.no_listing());
        }
        let in_list = lines.keys().filter(|label| wanted.fits(label));
        let mut places: BTreeSet<Place> = in_list
            .map(|label| Place { namespace: wanted.namespace.clone(), label: label.clone() })
            .collect();
        if let Some(repositories) = &repositories {
            places.extend(self.places_in(repositories, wanted)?);
        }
        let places: Vec<Place> = places.into_iter().collect();
        let images = self.look_at(wanted, &places, progress)?;
        Ok(Comparison {
            differences: differences(&places, &lines, &images),
            images,
            has_list: !lines.is_empty(),
            is_complete: repositories.is_some(),
        })
    }

    /// Lets the list say what the registry says of these labels, and returns where it still does
    /// not: a registry may delete nothing.
    ///
    /// Others may write meanwhile. `progress` counts labels.
    ///
    /// # Errors
    ///
    /// Those of reading and writing.
    pub fn repair_list(
        &self,
        namespace: &Namespace,
        differences: &[Difference],
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Difference>> {
        let lines = self.lines(namespace)?;
        let total = differences.len() as u64;
        let mut done = 0;
        for batch in differences.chunks(BATCH) {
            side_by_side(batch, |one| {
                let known = lines.get(&one.place.label).cloned().unwrap_or_default();
                self.correct(&one.place, None, Some(known), Changer::Others)
            })?;
            done += batch.len() as u64;
            progress(done, total);
        }
        // Also if nothing differs: a writer may have been killed before this.
        self.change_state(namespace)?;
        let lines = self.lines(namespace)?;
        let is_wrong = |one: &&Difference| listed(&lines, &one.place.label) != one.found;
        Ok(differences.iter().filter(is_wrong).cloned().collect())
    }

    /// Adds packages to the lines of images, which are in a list and say nothing of them yet.
    /// `progress` counts images.
    ///
    /// # Errors
    ///
    /// Those of reading and writing.
    pub fn add_packages(
        &self,
        namespace: &Namespace,
        images: &[(Listed, String)],
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let lines = self.lines(namespace)?;
        let total = images.len() as u64;
        let mut done = 0;
        for batch in images.chunks(BATCH) {
            side_by_side(batch, |(image, packages)| {
                let known = lines.get(&image.label).cloned().unwrap_or_default();
                let packed = Packages::pack(packages);
                let packages = packed.as_ref().map(|packages| (&image.digest, packages));
                self.correct(&image.place(), packages, Some(known), Changer::Others)
            })?;
            done += batch.len() as u64;
            progress(done, total);
        }
        self.change_state(namespace)
    }

    /// Lets the list say what the registry says of one label; `false` if it did, or if who asks may
    /// only read.
    ///
    /// # Errors
    ///
    /// Those of reading and writing.
    pub fn repair_line(&self, place: &Place) -> Result<bool> {
        // The list of a service is its own.
        if self.listing_url.is_some() {
            return Ok(false);
        }
        let repaired = self.correct(place, None, None, Changer::Others).and_then(|is_changed| {
            if is_changed {
                self.change_state(&place.namespace)?;
            }
            Ok(is_changed)
        });
        repaired.or_else(|error| match error.kind {
            ErrorKind::Unauthorized | ErrorKind::Forbidden => Ok(false),
            _ => Err(error),
        })
    }

    /// Reads all lines of a list.
    fn lines(&self, namespace: &Namespace) -> Result<Lines> {
        let repository = self.index_of(namespace);
        let mut lines = Lines::new();
        for tag in self.tags(&repository)? {
            let Some(entry) = Entry::read(&tag) else {
                continue;
            };
            if let Some(label) = self.label_of(&repository, &tag, &entry)? {
                lines.entry(label).or_default().push(tag);
            }
        }
        Ok(lines)
    }
}

/// How many labels are worked on between two reports of progress.
const BATCH: usize = 256;

/// Returns the image that the newest line of a label has.
fn listed(lines: &Lines, label: &Label) -> Option<Digest> {
    let entries = lines.get(label)?.iter().filter_map(|tag| Entry::read(tag));
    entries.max_by_key(|entry| entry.date).map(|newest| newest.digest)
}

fn differences(places: &[Place], lines: &Lines, images: &[Listed]) -> Vec<Difference> {
    let images: BTreeMap<&Label, &Digest> =
        images.iter().map(|image| (&image.label, &image.digest)).collect();
    let compare = |place: &Place| Difference {
        place: place.clone(),
        listed: listed(lines, &place.label),
        found: images.get(&place.label).map(|digest| (*digest).clone()),
    };
    places.iter().map(compare).filter(|one| one.listed != one.found).collect()
}
