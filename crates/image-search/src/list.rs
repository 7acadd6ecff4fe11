// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images of the repositories.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{Digest, ImageDescription, Label, NameMatch};
use cabane_report::Result;
use cabane_repository::{Error, Record, Repository};
use cabane_resolve::NamedRepository;
use cabane_run::difference::lines_beside;
use cabane_site::Context;

use crate::cache::PackageSearch;
use crate::packages::{Packages, PackagesByImage, select};
use crate::request::SearchRequest;

/// The images that were found in the repositories.
pub struct Images {
    /// The repositories, the one that is searched first in front, and their images by label.
    pub repositories: Vec<(NamedRepository, Vec<Record>)>,
    packages: Option<PackagesByImage>,
}

impl Images {
    /// Returns whether packages were searched for.
    pub fn have_packages(&self) -> bool {
        self.packages.is_some()
    }

    /// Returns the packages that were found in an image.
    pub fn packages(&self, image: &Digest) -> Option<&Packages> {
        self.packages.as_ref()?.get(image)
    }
}

/// Searches the repositories. Without a system in the pattern, the images of this system are
/// searched, if its name is known.
///
/// # Errors
///
/// A pattern that is none, a repository that cannot be read.
pub fn list(context: &Context, request: &SearchRequest) -> Result<Images> {
    let search = PackageSearch::new(context, request.patterns()?, SOURCE);
    let mut repositories = records_of_all(context, request)?;
    let packages = search.map(|search| retain_with_packages(context, search, &mut repositories));
    Ok(Images { repositories, packages })
}

/// The name of the repositories as a source of what is kept.
pub(crate) const SOURCE: &str = "repositories";

/// Finds images by their labels.
pub(crate) fn records_of_all(
    context: &Context,
    request: &SearchRequest,
) -> Result<Vec<(NamedRepository, Vec<Record>)>> {
    let description = request.description()?;
    let mut repositories = Vec::new();
    for repository in context.repositories()? {
        let how = request.name_match();
        let records = records(context, &repository.repository, description.as_ref(), how)?;
        repositories.push((repository, records));
    }
    Ok(repositories)
}

fn records(
    context: &Context,
    repository: &Repository,
    description: Option<&ImageDescription>,
    how: NameMatch,
) -> Result<Vec<Record>, Error> {
    let system = context.settings.system.value.as_ref();
    let is_here = |label: &Label| system.is_none_or(|system| label.system == *system);
    match description {
        Some(ImageDescription::Pattern(pattern)) => {
            let mut records = repository.find(pattern, how)?;
            records.retain(|record| pattern.system.is_some() || is_here(&record.label));
            Ok(records)
        }
        Some(ImageDescription::Id(id)) => repository.by_id(id),
        Some(ImageDescription::Digest(digest)) => repository.by_digest(digest),
        Some(ImageDescription::Path(_) | ImageDescription::Container(_)) => Ok(Vec::new()),
        None => {
            let mut records = repository.records()?;
            records.retain(|record| is_here(&record.label));
            Ok(records)
        }
    }
}

/// Keeps the images that have the packages, and reads the metadata of those that are not known
/// yet.
fn retain_with_packages(
    context: &Context,
    mut search: PackageSearch,
    found: &mut [(NamedRepository, Vec<Record>)],
) -> PackagesByImage {
    let mut lists = BTreeMap::new();
    for (repository, records) in found.iter() {
        for record in records {
            let digest = &record.digest;
            // An image without a list is read again: that costs little here.
            if search.kept.is_missing(digest, true) && !lists.contains_key(digest) {
                let meta = repository.repository.meta_path(digest);
                lists.insert(digest.clone(), lines_beside(&meta));
            }
        }
    }
    // Images that still have no list need not be written again.
    lists.retain(|digest, lines| lines.is_some() || search.kept.is_missing(digest, false));
    let records = || found.iter().flat_map(|(_, records)| records);
    let all: BTreeSet<_> = records().map(|record| &record.digest).collect();
    search.kept.add(&lists.into_iter().collect::<Vec<_>>(), &all);
    let packages = select(context, &search, records().map(|one| (&one.label, &one.digest)));
    for (_, records) in found {
        records.retain(|record| packages.contains_key(&record.digest));
    }
    packages
}
