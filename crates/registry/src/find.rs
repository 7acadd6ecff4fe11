// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images a registry has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cabane_label::{Digest, Label, LabelPattern, NameMatch, Namespace, Tag};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::address::RepositoryName;
use crate::document::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest, to_bytes};
use crate::entry::{self, Entry};
use crate::{Error, Place, Registry, RemoteImage};

/// How many questions are asked at once.
const AT_ONCE: usize = 16;
/// How often a label may get another image while it is noted which one it has.
const NOTE_ATTEMPTS: usize = 16;

/// Who is asked which images there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// The registry, if it lists its repositories; otherwise the index.
    #[default]
    Auto,
    /// The registry. It knows every image, and needs a question for each.
    Catalog,
    /// The index that is kept when images are pushed, copied and deleted. It needs one
    /// question for all, and does not know what other tools have pushed.
    Index,
}

/// An image that a registry has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The part of the registry.
    pub namespace: Namespace,
    /// The label.
    pub label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// When it was made, if that is said.
    pub date: Option<Timestamp>,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// In which part of the registry.
    pub namespace: &'a Namespace,
    /// Under which labels; every label if nothing is said.
    pub pattern: Option<&'a LabelPattern>,
    /// Whether names must be whole.
    pub how: NameMatch,
}

impl Wanted<'_> {
    fn fits(&self, label: &Label) -> bool {
        self.pattern
            .is_none_or(|pattern| pattern.matches(label, self.how))
    }

    /// Whether a repository may hold what is looked for: all but the tag is in its name.
    fn may_be_in(&self, name: &RepositoryName) -> bool {
        let Ok(any) = "any".parse::<Tag>() else {
            return true;
        };
        let label = name.place(any).label;
        let without_tag = |pattern: &LabelPattern| {
            let pattern = LabelPattern {
                tag: None,
                ..pattern.clone()
            };
            pattern.matches(&label, self.how)
        };
        name.namespace == *self.namespace && self.pattern.is_none_or(without_tag)
    }
}

impl Registry {
    /// Lists the images that fit, sorted by label.
    ///
    /// # Errors
    ///
    /// [`Error::NoListing`] where nobody knows.
    pub fn find(&self, wanted: &Wanted<'_>, listing: Listing) -> Result<Vec<Listed>, Error> {
        let mut found = match listing {
            // Where there is no index yet nothing was pushed.
            Listing::Index => Some(self.by_index(wanted)?.unwrap_or_default()),
            Listing::Catalog => self.by_catalog(wanted)?,
            Listing::Auto => match self.by_catalog(wanted)? {
                Some(found) => Some(found),
                None => self.by_index(wanted)?,
            },
        };
        if let Some(found) = &mut found {
            found.sort_by(|one, other| one.label.cmp(&other.label));
        }
        found.ok_or_else(|| Error::NoListing {
            host: self.client.host(),
        })
    }

    /// Asks the registry itself; `None` if it does not tell.
    fn by_catalog(&self, wanted: &Wanted<'_>) -> Result<Option<Vec<Listed>>, Error> {
        let Some(repositories) = self.catalog()? else {
            return Ok(None);
        };
        let names = repositories.iter().filter_map(|repository| {
            let name = RepositoryName::parse(self.address().below_prefix(repository)?)?;
            wanted
                .may_be_in(&name)
                .then_some((repository.as_str(), name))
        });
        let names: Vec<_> = names.collect();
        let places = side_by_side(&names, |(repository, name)| {
            let tags = self.tags(repository)?;
            let tags = tags.into_iter().filter(|tag| !tag.starts_with("sha256-"));
            let places = tags.filter_map(|tag| Some(name.place(tag.parse().ok()?)));
            Ok(places.collect::<Vec<Place>>())
        })?;
        let places: Vec<Place> = places.into_iter().flatten().collect();
        let places: Vec<Place> = places
            .into_iter()
            .filter(|place| wanted.fits(&place.label))
            .collect();
        let found = side_by_side(&places, |place| match self.image_if_there(place) {
            Ok(image) => Ok(image.map(|image| listed(&image))),
            // Other things may lie beside images.
            Err(Error::NotAnImage { .. } | Error::Document { .. }) => Ok(None),
            Err(error) => Err(error),
        })?;
        Ok(Some(found.into_iter().flatten().collect()))
    }

    /// Asks the index; `None` if there is none.
    fn by_index(&self, wanted: &Wanted<'_>) -> Result<Option<Vec<Listed>>, Error> {
        let repository = self.index_of(wanted.namespace);
        let tags = self.tags(&repository)?;
        let mut newest: BTreeMap<Label, Entry> = BTreeMap::new();
        for tag in &tags {
            let Some(entry) = Entry::read(tag) else {
                continue;
            };
            let label = match &entry.label {
                Some(label) => Some(label.clone()),
                None => self.long_label(&repository, tag)?,
            };
            let Some(label) = label.filter(|label| wanted.fits(label)) else {
                continue;
            };
            let is_newer = |known: &Entry| known.date < entry.date;
            if newest.get(&label).is_none_or(is_newer) {
                newest.insert(label, entry);
            }
        }
        if tags.is_empty() {
            return Ok(None);
        }
        let found = newest.into_iter().map(|(label, entry)| Listed {
            namespace: wanted.namespace.clone(),
            label,
            digest: entry.digest,
            size: entry.size,
            date: Some(entry.date),
        });
        Ok(Some(found.collect()))
    }

    fn long_label(&self, repository: &str, tag: &str) -> Result<Option<Label>, Error> {
        let Some(document) = self.document(repository, tag)? else {
            return Ok(None);
        };
        let manifest: Manifest = self.parse(&document.bytes, "a manifest")?;
        let label = manifest.annotations.get(entry::LABEL);
        Ok(label.and_then(|label| label.parse().ok()))
    }

    fn index_of(&self, namespace: &Namespace) -> String {
        self.address()
            .repository(&format!("{namespace}/{}", entry::REPOSITORY))
    }

    /// Sees to it that the index says of a label what the registry says.
    ///
    /// Nobody takes a line away without having written one. So one is always left, and
    /// whoever wrote the last one has seen afterwards that the label has that image.
    pub(crate) fn note_label(&self, place: &Place) -> Result<(), Error> {
        for _ in 0..NOTE_ATTEMPTS {
            let Some(image) = self.image_if_there(place)? else {
                return self.forget_label(place);
            };
            self.note(&image)?;
            let now = self.image_if_there(place)?;
            if now.is_some_and(|now| now.digest == image.digest) {
                return Ok(());
            }
        }
        Err(self
            .client
            .odd("the label gets another image again and again"))
    }

    /// Writes a line for an image, and takes those before it away.
    fn note(&self, image: &RemoteImage) -> Result<(), Error> {
        let place = &image.place;
        let repository = self.index_of(&place.namespace);
        let before: Vec<String> = self.lines_of(&repository, &place.label)?;
        let known = before.iter().filter_map(|tag| Entry::read(tag));
        let newest = known.max_by_key(|entry| entry.date);
        let is_noted = newest
            .as_ref()
            .is_some_and(|newest| newest.digest == image.digest);
        if is_noted && before.len() == 1 {
            return Ok(());
        }
        // The clocks of hosts differ, and the newest line is the one that counts.
        let after = newest.map_or(0, |newest| newest.date.as_second() + 1);
        let now = Timestamp::now().as_second().max(after);
        let date = Timestamp::from_second(now).unwrap_or_else(|_| Timestamp::now());
        let tag = Entry::tag(&place.label, &image.digest, image.size, date);
        let mut annotations = Annotations::new();
        annotations.insert(entry::LABEL.to_owned(), place.label.to_string());
        // Every line has a manifest of its own: registries delete manifests, and with one
        // all its tags.
        annotations.insert(entry::LINE.to_owned(), tag.clone());
        let layers = vec![Descriptor::empty_config()];
        let manifest = to_bytes(&Manifest::artifact(entry::KIND, layers, annotations));
        self.put_small_blob(&repository, EMPTY)?;
        self.put_document(&repository, &tag, MANIFEST, &manifest)?;
        for old in before.iter().filter(|old| **old != tag) {
            self.remove_line(&repository, old)?;
        }
        Ok(())
    }

    /// Takes the lines of a label out of the index.
    pub(crate) fn forget_label(&self, place: &Place) -> Result<(), Error> {
        let repository = self.index_of(&place.namespace);
        for tag in self.lines_of(&repository, &place.label)? {
            self.remove_line(&repository, &tag)?;
        }
        Ok(())
    }

    fn lines_of(&self, repository: &str, label: &Label) -> Result<Vec<String>, Error> {
        let tags = self.tags(repository)?;
        Ok(tags
            .into_iter()
            .filter(|tag| entry::is_of(tag, label))
            .collect())
    }

    fn remove_line(&self, repository: &str, tag: &str) -> Result<(), Error> {
        let Some(digest) = self.digest_of(repository, tag)? else {
            return Ok(());
        };
        match self.delete_by_digest(repository, &digest) {
            // The newest line counts; those before it are in nobody's way.
            Err(Error::NoDeletion { .. } | Error::Forbidden { .. }) => Ok(()),
            outcome => outcome,
        }
    }
}

fn listed(image: &RemoteImage) -> Listed {
    Listed {
        namespace: image.place.namespace.clone(),
        label: image.place.label.clone(),
        digest: image.digest.clone(),
        size: image.size,
        date: image.created,
    }
}

/// Asks several questions at once; the answers come in the order of the questions.
fn side_by_side<Q: Sync, A: Send>(
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<A, Error> + Sync,
) -> Result<Vec<A>, Error> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(questions.len()));
    let failure = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(questions.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = questions.get(index) else {
                        return;
                    };
                    match ask(question) {
                        Ok(answer) => {
                            let mut answers =
                                answers.lock().unwrap_or_else(PoisonError::into_inner);
                            answers.push((index, answer));
                        }
                        Err(error) => {
                            let mut failure =
                                failure.lock().unwrap_or_else(PoisonError::into_inner);
                            failure.get_or_insert(error);
                            // Nobody needs the other answers.
                            next.store(questions.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
