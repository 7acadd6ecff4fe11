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

/// The images of a registry, and for each what was requested of it. Lists are long: what was not
/// requested takes no memory.
pub struct FoundImages {
    /// What the list of the registry has of each.
    pub images: Vec<Listed>,
    /// The packages that were searched for.
    pub packages: Option<Vec<Packages>>,
    /// Who signed it.
    pub signatures: Option<Vec<SignatureVerdict>>,
    /// What was tested.
    pub tested: Option<Vec<Tested>>,
}

/// One image of [`FoundImages`].
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "as there")]
pub struct FoundImage<'a> {
    pub image: &'a Listed,
    pub packages: Option<&'a Packages>,
    pub signature: Option<&'a SignatureVerdict>,
    pub tested: Option<&'a Tested>,
}

impl FoundImages {
    /// Returns each image with what is known of it.
    pub fn iter(&self) -> impl Iterator<Item = FoundImage<'_>> + Clone {
        self.images.iter().enumerate().map(|(place, image)| FoundImage {
            image,
            packages: self.packages.as_ref().and_then(|all| all.get(place)),
            signature: self.signatures.as_ref().and_then(|all| all.get(place)),
            tested: self.tested.as_ref().and_then(|all| all.get(place)),
        })
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
) -> Result<FoundImages> {
    let description = request.description()?;
    let patterns = request.patterns()?;
    let connection = registry.connect(context)?;
    let address = connection.registry.address().to_string();
    let search = PackageSearch::new(context, patterns, &address);
    let images =
        look_up(context, &connection, description.as_ref(), request.name_match(), request.refresh)?;
    let mut found = FoundImages { images, packages: None, signatures: None, tested: None };
    if let Some(search) = search {
        keep_with_packages(context, &connection, search, &mut found, request.refresh)?;
    }
    if let Some(query) = &request.tested {
        keep_with_results(context, &connection, &mut found, query)?;
    }
    if request.signatures {
        add_signatures(context, &connection, &mut found)?;
    }
    Ok(found)
}

/// Keeps the images that have the packages, and asks for those of images that are not known yet.
fn keep_with_packages(
    context: &Context,
    connection: &Connection,
    mut search: PackageSearch,
    found: &mut FoundImages,
    refresh: bool,
) -> Result<()> {
    // Several labels may have one image.
    let missing: BTreeMap<&Digest, &Listed> = found
        .images
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
    let all: BTreeSet<_> = found.images.iter().map(|image| &image.digest).collect();
    in_batches(context, &missing, BATCH, |batch| {
        search.kept.add(&package_lists(context, connection, batch)?, &all);
        Ok(())
    })?;
    let images = found.images.iter().map(|image| (&image.label, &image.digest));
    let packages = select(context, &search, images);
    found.images.retain(|image| packages.contains_key(&image.digest));
    let of_each = found.images.iter().filter_map(|image| packages.get(&image.digest).cloned());
    found.packages = Some(of_each.collect());
    Ok(())
}

/// Does something with some images at a time, and shows how many are done.
pub(crate) fn in_batches(
    context: &Context,
    images: &[Listed],
    size: usize,
    mut work: impl FnMut(&[Listed]) -> Result<()>,
) -> Result<()> {
    if images.is_empty() {
        return Ok(());
    }
    let watched = context.counted("reading metadata");
    let all = images.len() as u64;
    watched.show(0, all);
    let mut done = 0;
    let mut batches = images.chunks(size);
    let result = batches.try_for_each(|batch| {
        work(batch)?;
        done += batch.len() as u64;
        watched.show(done, all);
        Ok(())
    });
    watched.end();
    result
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
fn keep_with_results(
    context: &Context,
    connection: &Connection,
    found: &mut FoundImages,
    query: &TestedQuery,
) -> Result<()> {
    let keys = EvidenceKeys::of(context)?;
    let now = Timestamp::now();
    let places: Vec<_> = found.images.iter().map(Listed::place).collect();
    let results: Vec<Option<Tested>> = each_of(AT_ONCE, &places, |place| {
        let Some(image) = connection.registry.image_if_there(place)? else {
            return Ok(None);
        };
        let statements = attached(&connection.registry, &image)?;
        let judged: Vec<_> =
            statements.iter().filter_map(|one| keys.judge(one, &image.digest)).collect();
        Ok::<_, Report>(Some(tested(&judged, &query.wanted, now)))
    })?;
    let is_wanted = |result: &Option<Tested>| {
        result.as_ref().is_some_and(|result| result.outcome == query.outcome)
    };
    let kept: Vec<bool> = results.iter().map(is_wanted).collect();
    keep(&mut found.images, &kept);
    if let Some(packages) = &mut found.packages {
        keep(packages, &kept);
    }
    found.tested = Some(results.into_iter().filter(is_wanted).flatten().collect());
    Ok(())
}

/// Keeps the items whose place says so.
fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next() == Some(&true));
}

fn add_signatures(
    context: &Context,
    connection: &Connection,
    found: &mut FoundImages,
) -> Result<()> {
    let Some(first) = found.images.first() else {
        return Ok(());
    };
    // A search is in one namespace.
    let keys = KnownKeys::of(context, &first.place());
    let signatures = connection.registry.signatures_of_listed(&found.images)?;
    let verdicts = signatures.into_iter().map(|signatures| Ok(keys.judge(&signatures?)));
    found.signatures = Some(verdicts.collect::<Result<_>>()?);
    Ok(())
}
