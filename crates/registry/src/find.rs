// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images a registry has.
//!
//! What was answered is kept, and counts only as long as the registry says that it still
//! holds: by the digest of each manifest, or by the state of the list.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{Label, LabelPattern, NameMatch, Namespace};
use cabane_report::{Kind, Report};

use crate::catalog_cache::{CATALOG, CachedList, INDEX};
use crate::document::OciDigest;
use crate::entry::Entry;
use crate::image::Listed;
use crate::parallel::side_by_side;
use crate::registry::Changed;
use crate::{Error, ErrorKind, Place, Progress, Registry, Result};

/// How many images are looked at until what was seen is kept.
const BATCH: usize = 1024;

/// Where the list of images comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// The list of a service, if one is configured; the list, if there is one; otherwise the registry itself, if it lists its repositories.
    #[default]
    Auto,
    /// The registry itself. It knows every image, and needs a request for each.
    Catalog,
    /// The list that is kept when images are pushed, copied and deleted. It needs one
    /// request for all, and lacks what other tools have pushed since it was repaired.
    Index,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// In which part of the registry.
    pub namespace: &'a Namespace,
    /// Under which labels; every label by default.
    pub pattern: Option<&'a LabelPattern>,
    /// Whether names must be whole.
    pub how: NameMatch,
}

impl Wanted<'_> {
    pub(crate) fn fits(&self, label: &Label) -> bool {
        self.pattern.is_none_or(|pattern| pattern.matches(label, self.how))
    }

    /// Whether the repository of a place may hold what is looked for, under any tag.
    fn may_be_beside(&self, place: &Place) -> bool {
        let without_tag = |pattern: &LabelPattern| {
            let pattern = LabelPattern { tag: None, ..pattern.clone() };
            pattern.matches(&place.label, self.how)
        };
        place.namespace == *self.namespace && self.pattern.is_none_or(without_tag)
    }
}

impl Registry {
    /// Lists the images that fit, sorted by label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoListing`] where it is unknown.
    pub fn find(&self, wanted: &Wanted<'_>, listing: Listing) -> Result<Vec<Listed>> {
        let mut found = match listing {
            Listing::Auto if self.listing_url.is_some() => {
                let url = self.listing_url.as_deref().unwrap_or_default();
                let images = self.by_service(url, wanted.namespace)?.into_iter();
                Some(images.filter(|image| wanted.fits(&image.label)).collect())
            }
            // Where there is no index yet nothing was pushed.
            Listing::Index => Some(self.by_index(wanted)?.unwrap_or_default()),
            Listing::Catalog => self.by_catalog(wanted)?,
            Listing::Auto => match self.by_index(wanted)? {
                Some(found) => Some(found),
                None => self.by_catalog(wanted)?,
            },
        };
        if let Some(found) = &mut found {
            found.sort_by(|one, other| one.label.cmp(&other.label));
        }
        found.ok_or_else(|| self.no_listing())
    }

    pub(crate) fn no_listing(&self) -> Error {
        let host = self.address().host();
        let message = format!("the registry {host} does not list its images");
        let report = Report::new(Kind::Registry, message).hinted(
            "an image can be pulled by its full label: `name/version:tag@system%uarch`".to_owned(),
        );
        Error::new(ErrorKind::NoListing, report)
    }

    /// Asks the registry itself; `None` if it does not tell.
    fn by_catalog(&self, wanted: &Wanted<'_>) -> Result<Option<Vec<Listed>>> {
        let Some(repositories) = self.catalog()? else {
            return Ok(None);
        };
        let places = self.places_in(&repositories, wanted)?;
        self.look_at(wanted, &places, &mut |_, _| ()).map(Some)
    }

    /// Lists the labels in repositories.
    pub(crate) fn places_in(
        &self,
        repositories: &[String],
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Place>> {
        let names = repositories.iter().filter_map(|repository| {
            let any = "any".parse().ok()?;
            let place = Place::of_repository(self.address().below_prefix(repository)?, any)?;
            wanted.may_be_beside(&place).then_some((repository.as_str(), place))
        });
        let names: Vec<_> = names.collect();
        let places = side_by_side(&names, |(repository, place)| {
            let tags = self.tags(repository)?;
            let tags = tags.into_iter().filter(|tag| !tag.starts_with("sha256-"));
            let places = tags.filter_map(|tag| Some(place.with_tag(tag.parse().ok()?)));
            Ok(places.collect::<Vec<Place>>())
        })?;
        let places = places.into_iter().flatten();
        Ok(places.filter(|place| wanted.fits(&place.label)).collect())
    }

    /// Returns the images that there are under labels, sorted by label. What was seen is kept, so
    /// that it need not be read again: also if this is interrupted.
    pub(crate) fn look_at(
        &self,
        wanted: &Wanted<'_>,
        places: &[Place],
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Listed>> {
        let kept = self.cached_list(wanted.namespace, CATALOG).images;
        let mut images: BTreeMap<Label, Listed> =
            kept.iter().map(|one| (one.label.clone(), one.clone())).collect();
        let labels: BTreeSet<&Label> = places.iter().map(|place| &place.label).collect();
        // What is not requested now may be so the next time.
        images.retain(|label, _| labels.contains(label) || !wanted.fits(label));
        let mut found = Vec::with_capacity(places.len());
        for (number, batch) in places.chunks(BATCH).enumerate() {
            let look = |place: &Place| self.look_again(place, images.get(&place.label));
            for (place, image) in batch.iter().zip(side_by_side(batch, look)?) {
                match image {
                    Some(image) => {
                        images.insert(image.label.clone(), image.clone());
                        found.push(image);
                    }
                    None => drop(images.remove(&place.label)),
                }
            }
            progress((number * BATCH + batch.len()) as u64, places.len() as u64);
            let seen = CachedList { state: None, images: images.values().cloned().collect() };
            if seen.images != kept {
                self.cache_list(wanted.namespace, CATALOG, &seen);
            }
        }
        found.sort_by(|one, other| one.label.cmp(&other.label));
        Ok(found)
    }

    /// Looks at the image of a place; where it is the one that is known nothing is read.
    fn look_again(&self, place: &Place, known: Option<&Listed>) -> Result<Option<Listed>> {
        let repository = self.repository(place)?;
        let manifest = known.and_then(|known| known.manifest.clone()).map(OciDigest);
        let changed = self.document_unless(&repository, place.tag(), manifest.as_ref())?;
        match (changed, known) {
            (Changed::Not, Some(known)) => Ok(Some(known.clone())),
            (Changed::Not, None) | (Changed::Gone, _) => Ok(None),
            (Changed::To(document), _) => match self.read_image(place, repository, document) {
                Ok(image) => Ok(Some(Listed::of(&image))),
                // Other things may be beside images.
                Err(error) => match error.kind {
                    ErrorKind::NotAnImage | ErrorKind::Document => Ok(None),
                    _ => Err(error),
                },
            },
        }
    }

    /// Asks the index; `None` if there is none.
    fn by_index(&self, wanted: &Wanted<'_>) -> Result<Option<Vec<Listed>>> {
        let fits = |label: &Label| wanted.fits(label);
        let cached_list = self.cached_part(wanted.namespace, INDEX, &fits);
        // The state before the list: what changes in between is found the next time.
        let mut images = match self.state(wanted.namespace, cached_list.state.as_ref())? {
            Changed::Not => return Ok(Some(cached_list.images)),
            changed => {
                let state = changed.document().map(|document| document.digest);
                let Some(images) = self.read_index(wanted.namespace)? else {
                    return Ok(None);
                };
                let cached_list = CachedList { state, images };
                self.cache_list(wanted.namespace, INDEX, &cached_list);
                cached_list.images
            }
        };
        images.retain(|one| fits(&one.label));
        Ok(Some(images))
    }

    /// Reads all lines of an index, sorted by label; `None` if there is none.
    fn read_index(&self, namespace: &Namespace) -> Result<Option<Vec<Listed>>> {
        let repository = self.index_of(namespace);
        let tags = self.tags(&repository)?;
        if tags.is_empty() {
            return Ok(None);
        }
        let mut newest: BTreeMap<Label, Entry> = BTreeMap::new();
        for tag in &tags {
            let Some(entry) = Entry::read(tag) else {
                continue;
            };
            let Some(label) = self.label_of(&repository, tag, &entry)? else {
                continue;
            };
            let is_newer = |known: &Entry| known.date < entry.date;
            if newest.get(&label).is_none_or(is_newer) {
                newest.insert(label, entry);
            }
        }
        let images = newest.into_iter().map(|(label, entry)| Listed {
            namespace: namespace.clone(),
            label,
            digest: entry.digest,
            size: entry.size,
            date: Some(entry.date),
            manifest: None,
        });
        Ok(Some(images.collect()))
    }
}
