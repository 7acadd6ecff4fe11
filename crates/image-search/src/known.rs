// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is known without asking a registry, for completion.

use std::collections::BTreeSet;

use cabane_label::Namespace;
use cabane_registry::Listed;
use cabane_report::Result;
use cabane_run::difference::lines_beside;
use cabane_site::Context;
use cabane_transfer::RegistryRequest;
use cabane_view::{PackageLine, PackageLines};

use crate::cache::{Kept, PACKAGES};
use crate::list::{SOURCE, records_of_all};
use crate::request::SearchRequest;

/// How many images are read that no search has read before; each may take a millisecond.
const MOST_READ: usize = 16;

/// Returns the images of a part of a registry that were seen last, sorted by label, and the part that
/// was meant. Without a namespace, that is the configured one. Nothing is sent.
///
/// # Errors
///
/// As [`RegistryRequest::connect`].
pub fn known_images(
    context: &Context,
    registry: &RegistryRequest,
    namespace: Option<&Namespace>,
) -> Result<Vec<Listed>> {
    let connection = registry.connect(context)?;
    let configured = connection.namespace_of(None);
    Ok(connection.registry.seen_last(namespace.unwrap_or(&configured)))
}

/// Returns names and versions of packages in the images of the repositories, or in those of a
/// registry. They are what earlier searches have kept; before the first one, those of the newest images of
/// the repositories. Nothing is sent, and nothing is written.
///
/// # Errors
///
/// A repository that cannot be read; as [`RegistryRequest::connect`].
pub fn known_packages(
    context: &Context,
    registry: Option<&RegistryRequest>,
) -> Result<BTreeSet<(String, String)>> {
    let mut known = BTreeSet::new();
    if let Some(registry) = registry {
        let address = registry.connect(context)?.registry.address().to_string();
        let kept = Kept::<PackageLines>::read(context, PACKAGES, &address);
        add(&mut known, kept.index.lines());
        return Ok(known);
    }
    let kept = Kept::<PackageLines>::read(context, PACKAGES, SOURCE);
    add(&mut known, kept.index.lines());
    if !known.is_empty() {
        return Ok(known);
    }
    let repositories = records_of_all(context, &SearchRequest::default())?;
    let images = repositories.iter().flat_map(|(repository, records)| {
        records.iter().map(move |record| (record, &repository.repository))
    });
    let mut unread: Vec<_> =
        images.filter(|(record, _)| kept.is_missing(&record.digest, false)).collect();
    unread.sort_by_key(|(record, _)| std::cmp::Reverse(record.date));
    for (record, repository) in unread.into_iter().take(MOST_READ) {
        let lines = lines_beside(&repository.meta_path(&record.digest)).unwrap_or_default();
        add(&mut known, lines.lines());
    }
    Ok(known)
}

fn add<'l>(known: &mut BTreeSet<(String, String)>, lines: impl IntoIterator<Item = &'l str>) {
    let packages = lines.into_iter().filter_map(PackageLine::read);
    known.extend(packages.map(|one| (one.name.to_owned(), one.version.to_owned())));
}
