// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images of the repositories or of a registry, with what they need of the host.
//!
//! What an image needs never changes, so it is read once and kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use cabane_label::{Digest, Label};
use cabane_registry::{Listed, Registry, RemoteImage};
use cabane_report::Result;
use cabane_run::difference::lines_beside;
use cabane_site::Context;
use cabane_transfer::{Connection, RegistryRequest, look_up};
use cabane_view::{HostNeeds, Meta, NeedIndex, NeedLines, PackageIndex, PackageLines};

use crate::cache::{DETAILS, Kept, NEEDS, PACKAGES};
use crate::details::{DetailIndex, DetailLines, detail_line};
use crate::list::{SOURCE, records_of_all};
use crate::packages::names;
use crate::registry::{in_batches, package_lists};
use crate::request::SearchRequest;

/// How many images are requested until the answers are kept, so that an interrupted run continues.
const BATCH: usize = 1000;
/// The file of metadata that starts an image.
const ENV_JSON: &str = "env.json";

/// An image of a catalog.
#[derive(Clone, Debug)]
pub struct Catalogued {
    /// Its label, in a registry with the namespace.
    pub label: String,
    /// Its label alone.
    pub name: Label,
    /// Its digest.
    pub digest: Digest,
    /// The name of the repository, or the address of the registry.
    pub source: String,
    /// Where a copy of its metadata is.
    pub meta: Option<PathBuf>,
}

/// Images, with what is known of them.
#[derive(Debug)]
pub struct Catalogue {
    /// The images by label. Several labels may have one image.
    pub images: Vec<Catalogued>,
    /// What they need.
    pub needs: NeedIndex,
    /// Their packages, if they were requested.
    pub packages: Option<PackageIndex>,
    /// What their metadata say to people, if that was requested.
    pub details: Option<DetailIndex>,
}

/// What is read of images beside what they need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogueParts {
    /// Their packages.
    pub packages: bool,
    /// What their metadata say to people.
    pub details: bool,
}

impl Catalogue {
    /// Reads the images of the repositories that a request names.
    ///
    /// # Errors
    ///
    /// A pattern that is none, a repository that cannot be read.
    pub fn of_repositories(
        context: &Context,
        request: &SearchRequest,
        parts: CatalogueParts,
    ) -> Result<Self> {
        let mut images = Vec::new();
        for (repository, records) in records_of_all(context, request)? {
            images.extend(records.into_iter().map(|record| Catalogued {
                label: record.label.to_string(),
                name: record.label,
                meta: Some(repository.repository.meta_path(&record.digest)),
                digest: record.digest,
                source: repository.name.clone(),
            }));
        }
        let meta = |image: &Catalogued, name: &str| fs::read(image.meta.as_ref()?.join(name)).ok();
        let mut needs: Kept<NeedLines> = Kept::read(context, NEEDS, SOURCE);
        let lines = |image: &Catalogued| need_lines(|name| meta(image, name));
        add_local(&mut needs, &images, lines);
        let packages = parts.packages.then(|| {
            let mut packages: Kept<PackageLines> = Kept::read(context, PACKAGES, SOURCE);
            add_local(&mut packages, &images, |image| lines_beside(image.meta.as_ref()?));
            packages.index
        });
        let details = parts.details.then(|| {
            let mut details: Kept<DetailLines> = Kept::read(context, DETAILS, SOURCE);
            add_local(&mut details, &images, |image| detail_line(&meta(image, ENV_JSON)?));
            details.index
        });
        Ok(Self { images, needs: needs.index, packages, details })
    }

    /// As [`Catalogue::of_repositories`], for the images of a registry.
    ///
    /// # Errors
    ///
    /// A pattern that is none, no registry, a registry that does not answer.
    pub fn of_registry(
        context: &Context,
        registry: &RegistryRequest,
        request: &SearchRequest,
        parts: CatalogueParts,
    ) -> Result<Self> {
        let description = request.description()?;
        let connection = registry.connect(context)?;
        let (how, refresh) = (request.name_match(), request.refresh);
        let listed = look_up(context, &connection, description.as_ref(), how, refresh)?;
        Self::of_listed(context, &connection, listed, parts, refresh)
    }

    /// As [`Catalogue::of_registry`], for images that were found already. With `refresh`, those that said
    /// nothing are asked again.
    ///
    /// # Errors
    ///
    /// A registry that does not answer.
    pub fn of_listed(
        context: &Context,
        connection: &Connection,
        listed: Vec<Listed>,
        parts: CatalogueParts,
        refresh: bool,
    ) -> Result<Self> {
        let address = connection.registry.address().to_string();
        // Another namespace may say something else to people about the same image.
        let namespaces: BTreeSet<_> = listed.iter().map(|image| image.namespace.as_str()).collect();
        let place = format!("{address} {}", Vec::from_iter(namespaces).join(" "));
        let mut metadata = Metadata {
            needs: Kept::read(context, NEEDS, &address),
            details: parts.details.then(|| Kept::read(context, DETAILS, &place)),
        };
        let all: BTreeSet<_> = listed.iter().map(|image| &image.digest).collect();
        let missing = missing(&listed, |image| metadata.is_missing(image, refresh));
        note_many(context, &missing);
        in_batches(context, &missing, BATCH, |batch| {
            metadata.add(context, connection, batch, &all)
        })?;
        let mut packages = None;
        if parts.packages {
            let mut kept: Kept<PackageLines> = Kept::read(context, PACKAGES, &address);
            let missing = self::missing(&listed, |image| kept.is_missing(image, refresh));
            note_many(context, &missing);
            in_batches(context, &missing, BATCH, |batch| {
                kept.add(&package_lists(context, connection, batch)?, &all);
                Ok(())
            })?;
            packages = Some(kept.index);
        }
        let images = listed.into_iter().map(|image| Catalogued {
            label: format!("{}::{}", image.namespace, image.label),
            name: image.label,
            digest: image.digest,
            source: address.clone(),
            meta: None,
        });
        let (needs, details) = (metadata.needs.index, metadata.details.map(|kept| kept.index));
        Ok(Self { images: images.collect(), needs, packages, details })
    }
}

/// What is read of the metadata of images in a registry.
struct Metadata {
    needs: Kept<NeedLines>,
    details: Option<Kept<DetailLines>>,
}

impl Metadata {
    fn is_missing(&self, image: &Digest, again: bool) -> bool {
        let details = self.details.as_ref();
        self.needs.is_missing(image, again)
            || details.is_some_and(|details| details.is_missing(image, again))
    }

    /// Asks for images. Those that cannot be read are named in a warning.
    fn add(
        &mut self,
        context: &Context,
        connection: &Connection,
        batch: &[Listed],
        all: &BTreeSet<&Digest>,
    ) -> Result<()> {
        let answers = connection.registry.meta_files_of(batch, &[ENV_JSON, HostNeeds::FILE])?;
        let (mut needs, mut details, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (image, answer) in batch.iter().zip(answers) {
            match answer {
                Ok(files) => {
                    let mut files = files.unwrap_or_default();
                    let line = files.get(ENV_JSON).and_then(|text| detail_line(text));
                    details.push((image.digest.clone(), line));
                    needs.push((image.digest.clone(), need_lines(|name| files.remove(name))));
                }
                Err(error) => failed.push((&image.label, error)),
            }
        }
        if let Some((_, error)) = failed.first() {
            let labels = names(context, failed.iter().map(|(label, _)| label));
            context.warning(format_args!("cannot read the needs of {labels}: {error}"));
        }
        self.needs.add(&needs, all);
        if let Some(kept) = &mut self.details {
            kept.add(&details, all);
        }
        Ok(())
    }
}

/// Returns the images that have to be asked, one for each digest.
fn missing(listed: &[Listed], is_missing: impl Fn(&Digest) -> bool) -> Vec<Listed> {
    let missing = listed.iter().filter(|image| is_missing(&image.digest));
    let missing: BTreeMap<&Digest, &Listed> = missing.map(|image| (&image.digest, image)).collect();
    missing.into_values().cloned().collect()
}

fn note_many(context: &Context, missing: &[Listed]) {
    if missing.len() > BATCH {
        let count = missing.len();
        context.note(format_args!("reading the metadata of {count} images; the answers are kept"));
    }
}

/// Adds the images that are not known yet.
fn add_local<K: cabane_view::LineKind>(
    kept: &mut Kept<K>,
    images: &[Catalogued],
    lines: impl Fn(&Catalogued) -> Option<String>,
) {
    let mut lists = BTreeMap::new();
    for image in images.iter().filter(|image| kept.is_missing(&image.digest, false)) {
        lists.entry(image.digest.clone()).or_insert_with(|| lines(image));
    }
    let all: BTreeSet<_> = images.iter().map(|image| &image.digest).collect();
    kept.add(&lists.into_iter().collect::<Vec<_>>(), &all);
}

/// Reads what an image of a registry needs, as lines; `None` if its metadata say nothing.
///
/// # Errors
///
/// Metadata that are not what was announced, or that the registry cannot be reached.
pub fn needs_of(registry: &Registry, image: &RemoteImage) -> Result<Option<String>> {
    let files = registry.fetch_meta_files(image, &[ENV_JSON, HostNeeds::FILE])?;
    let mut files = files.unwrap_or_default();
    Ok(need_lines(|name| files.remove(name)))
}

/// Returns what the metadata of an image say about its needs, as lines; `None` if they say nothing.
/// `read` returns the contents of a file of the metadata.
pub fn need_lines(mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> Option<String> {
    let meta = read(ENV_JSON).and_then(|text| Meta::from_json(&text).ok());
    let needs = read(HostNeeds::FILE).and_then(|text| HostNeeds::from_json(&text).ok());
    if meta.is_none() && needs.is_none() {
        return None;
    }
    Some(meta.unwrap_or_default().need_lines(needs.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(env: Option<&str>, needs: Option<&str>) -> Option<String> {
        need_lines(|name| {
            let text = if name == ENV_JSON { env } else { needs };
            text.map(|text| text.as_bytes().to_vec())
        })
    }

    #[test]
    fn needs_of_another_version_count_as_not_there() {
        let env = r#"{"name": "app", "cabane": {"version": 1, "needs": {"glibc": "2.34"}}}"#;
        let future = Some(r#"{"version": 2, "files": 3}"#);
        assert_eq!(lines(Some(env), future).as_deref(), Some("glibc\t2.34\n"));
        assert_eq!(lines(None, future), None);
    }

    #[test]
    fn both_files_are_read() {
        let env = r#"{"name": "app", "cabane": {"version": 1, "needs": {"glibc": "2.34"}}}"#;
        let needs = Some(r#"{"version": 1, "files": 3}"#);
        assert_eq!(lines(Some(env), needs).as_deref(), Some("glibc\t2.34\nscanned\t3\n"));
    }
}
