// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images of a registry.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use cabane_evidence::{EvidenceKeys, Tested, attached, tested};
use cabane_label::Digest;
use cabane_registry::{Content, Listed, each_of};
use cabane_report::{Report, Result};
use cabane_run::difference::{PACKAGE_FILES, packages_in_metadata};
use cabane_signature_policy::{KnownKeys, SignatureVerdict};
use cabane_site::Context;
use cabane_transfer::{Connection, RegistryRequest, look_up};
use jiff::Timestamp;

use crate::cache::PackageSearch;
use crate::packages::{Packages, names, select};
use crate::request::{SearchRequest, TestedQuery};

/// How many images are requested their packages before the answers are cached, so that an
/// interrupted search continues.
const BATCH: usize = 1000;
/// How many images are asked at the same time for results of tests.
const AT_ONCE: usize = 4;

/// An image of a registry.
pub struct FoundImage {
    /// What the list of the registry has of it.
    pub image: Listed,
    /// The packages that were searched for.
    pub packages: Option<Packages>,
    /// Who signed it, if that was requested. Boxed, since mostly it is not, and lists are long.
    pub signature: Option<Box<SignatureVerdict>>,
    /// What was tested, if that was requested.
    pub tested: Option<Box<Tested>>,
}

impl FoundImage {
    fn of(image: Listed) -> Self {
        Self { image, packages: None, signature: None, tested: None }
    }
}

/// Searches a registry. Without a system in the pattern, the images of this system are searched,
/// if its name is known.
///
/// # Errors
///
/// A pattern that is none, no registry, a registry that does not answer.
pub fn find(
    context: &Context,
    registry: &RegistryRequest,
    request: &SearchRequest,
) -> Result<Vec<FoundImage>> {
    let description = request.description()?;
    let patterns = request.patterns()?;
    let connection = registry.connect(context)?;
    let address = connection.registry.address().to_string();
    let search = PackageSearch::new(context, patterns, &address);
    let listed =
        look_up(context, &connection, description.as_ref(), request.name_match(), request.refresh)?;
    let mut found = match search {
        Some(search) => with_packages(context, &connection, search, listed, request.refresh)?,
        None => listed.into_iter().map(FoundImage::of).collect(),
    };
    if let Some(query) = &request.tested {
        found = with_results(context, &connection, found, query)?;
    }
    if request.signatures {
        add_signatures(context, &connection, &mut found)?;
    }
    Ok(found)
}

/// Keeps the images that have the packages, and asks for those of images that are not known yet.
fn with_packages(
    context: &Context,
    connection: &Connection,
    mut search: PackageSearch,
    mut listed: Vec<Listed>,
    refresh: bool,
) -> Result<Vec<FoundImage>> {
    // Several labels may have one image.
    let missing: BTreeMap<&Digest, &Listed> = listed
        .iter()
        .filter(|image| search.kept.is_missing(&image.digest, refresh))
        .map(|image| (&image.digest, image))
        .collect();
    let missing: Vec<Listed> = missing.into_values().cloned().collect();
    if missing.len() > BATCH {
        context.note(format_args!(
            "asking {} images which packages they have; the answers are kept",
            missing.len()
        ));
    }
    let all: BTreeSet<_> = listed.iter().map(|image| &image.digest).collect();
    for batch in missing.chunks(BATCH) {
        search.kept.add(&package_lists(context, connection, batch)?, &all);
    }
    let images = listed.iter().map(|image| (&image.label, &image.digest));
    let packages = select(context, &search, images);
    listed.retain(|image| packages.contains_key(&image.digest));
    let found = listed.into_iter().map(|image| FoundImage {
        packages: packages.get(&image.digest).cloned(),
        ..FoundImage::of(image)
    });
    Ok(found.collect())
}

/// Returns the package lists of images. A warning names those that cannot be read.
pub(crate) fn package_lists(
    context: &Context,
    connection: &Connection,
    images: &[Listed],
) -> Result<Vec<(Digest, Option<String>)>> {
    let contents = connection.registry.contents(images, &PACKAGE_FILES)?;
    let mut lists = Vec::with_capacity(images.len());
    let mut failed = Vec::new();
    for (image, content) in images.iter().zip(contents) {
        let lines = match content {
            Ok(answer) => package_lines(answer),
            Err(error) => {
                failed.push((&image.label, error));
                continue;
            }
        };
        lists.push((image.digest.clone(), lines));
    }
    if let Some((_, error)) = failed.first() {
        let labels = names(context, failed.iter().map(|(label, _)| label));
        context.warning(format_args!("it is not known which packages are in {labels}: {error}"));
    }
    Ok(lists)
}

/// Returns the packages of an image as lines; `None` if it does not list them.
pub(crate) fn package_lines(content: Content) -> Option<String> {
    match content {
        Content::Lines(lines) => Some(lines),
        Content::Files(files) => {
            let files = RefCell::new(files);
            let list = packages_in_metadata(|name| files.borrow_mut().remove(name));
            list.map(|list| list.to_lines())
        }
        Content::Nothing => None,
    }
}

/// Keeps the images with an outcome of tests. Each takes several requests.
fn with_results(
    context: &Context,
    connection: &Connection,
    found: Vec<FoundImage>,
    query: &TestedQuery,
) -> Result<Vec<FoundImage>> {
    let keys = EvidenceKeys::of(context)?;
    let now = Timestamp::now();
    let places: Vec<_> = found.iter().map(|one| one.image.place()).collect();
    let results: Vec<Option<Tested>> = each_of(AT_ONCE, &places, |place| {
        let Some(image) = connection.registry.image_if_there(place)? else {
            return Ok(None);
        };
        let statements = attached(&connection.registry, &image)?;
        let judged: Vec<_> =
            statements.iter().filter_map(|one| keys.judge(one, &image.digest)).collect();
        Ok::<_, Report>(Some(tested(&judged, &query.wanted, now)))
    })?;
    let mut kept = Vec::new();
    for (mut one, result) in found.into_iter().zip(results) {
        if let Some(result) = result.filter(|result| result.outcome == query.outcome) {
            one.tested = Some(Box::new(result));
            kept.push(one);
        }
    }
    Ok(kept)
}

fn add_signatures(
    context: &Context,
    connection: &Connection,
    found: &mut [FoundImage],
) -> Result<()> {
    let Some(first) = found.first() else {
        return Ok(());
    };
    // A search is in one namespace.
    let keys = KnownKeys::of(context, &first.image.place());
    let images: Vec<Listed> = found.iter().map(|one| one.image.clone()).collect();
    let signatures = connection.registry.signatures_of_listed(&images)?;
    for (one, signatures) in found.iter_mut().zip(signatures) {
        one.signature = Some(Box::new(keys.judge(&signatures?)));
    }
    Ok(())
}
