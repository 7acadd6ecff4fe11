// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keeping the list of a namespace in the registry: see [`crate::entry`] for its lines.
//!
//! Beside it there is a repository `cabane-state`, of which the one tag gets another manifest
//! after every change of a line. Anyone who has seen the list after the state it has now need not get it
//! again.

use cabane_label::{Digest, Label, Namespace};
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};

use crate::contents::Packages;
use crate::document::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest, OciDigest, to_bytes};
use crate::entry::{self, Entry};
use crate::registry::Changed;
use crate::{ErrorKind, Place, Registry, RemoteImage, Result};

/// How often a label may get another image while it is noted which one it has.
const NOTE_ATTEMPTS: usize = 16;

/// Who changed what a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changer {
    /// This process.
    Us,
    /// Another tool, or a process that was killed before it wrote the line.
    Others,
}

/// Returns the line that counts, read.
fn newest(lines: &[String]) -> Option<(Entry, String)> {
    let dated = |tag: &String| Entry::read(tag).map(|entry| (entry, tag.clone()));
    lines.iter().filter_map(dated).max_by_key(|(entry, _)| entry.date)
}

impl Registry {
    /// Returns the label of a line, which is in its manifest if it is too long for a tag.
    pub(crate) fn label_of(
        &self,
        repository: &str,
        tag: &str,
        entry: &Entry,
    ) -> Result<Option<Label>> {
        if let Some(label) = &entry.label {
            return Ok(Some(label.clone()));
        }
        let manifest: Option<Manifest> = self.parsed_document("a manifest", repository, tag)?;
        Ok(manifest.and_then(|manifest| manifest.annotations.get(entry::LABEL)?.parse().ok()))
    }

    pub(crate) fn index_of(&self, namespace: &Namespace) -> String {
        self.address().repository(&format!("{namespace}/{}", entry::REPOSITORY))
    }

    /// Sees to it that the index says of a label what the registry says.
    ///
    /// The packages are those of the image that the caller has given the label.
    pub(crate) fn note_label(
        &self,
        place: &Place,
        noted: &RemoteImage,
        packages: Option<&Packages>,
    ) -> Result<()> {
        let packages = packages.map(|packages| (&noted.digest, packages));
        self.correct(place, packages, None, Changer::Us)?;
        // Also if nothing had to be written: the writer of the line may have been killed before this.
        self.change_state(&place.namespace)
    }

    /// Takes the lines of a label out of the index, unless it has an image again.
    pub(crate) fn forget_label(&self, place: &Place) -> Result<()> {
        self.correct(place, None, None, Changer::Us)?;
        self.change_state(&place.namespace)
    }

    /// Lets the lines of a label say what the registry says, and returns whether they did not. Of an
    /// image the packages may be known, and of the label the lines.
    ///
    /// No one takes a line away that was not there before the look at the registry. So one is
    /// always left, and the writer of the last one has seen afterwards that the label has that image.
    pub(crate) fn correct(
        &self,
        place: &Place,
        packages: Option<(&Digest, &Packages)>,
        mut known: Option<Vec<String>>,
        changer: Changer,
    ) -> Result<bool> {
        let repository = self.index_of(&place.namespace);
        let mut is_changed = false;
        for _ in 0..NOTE_ATTEMPTS {
            let before = match known.take() {
                Some(lines) => lines,
                None => self.lines_of(&repository, &place.label)?,
            };
            let image = self.listable(place)?;
            if let Some(image) = &image {
                let of_image = packages.filter(|(digest, _)| **digest == image.digest);
                let packages = of_image.map(|(_, packages)| packages);
                is_changed |= self.note(image, packages, &before, changer)?;
            } else {
                before.iter().try_for_each(|line| self.remove_line(&repository, line))?;
                if let Some((entry, _)) = newest(&before) {
                    self.log(place, Some(&entry.digest), None, changer == Changer::Us)?;
                }
                is_changed |= !before.is_empty();
            }
            let digest = |image: Option<RemoteImage>| image.map(|image| image.digest);
            if digest(self.listable(place)?) == digest(image) {
                return Ok(is_changed);
            }
        }
        Err(self.client.odd("the label gets another image again and again"))
    }

    /// Returns the image that has a label; `None` if none has, or something else.
    fn listable(&self, place: &Place) -> Result<Option<RemoteImage>> {
        match self.image_if_there(place) {
            Err(error) if matches!(error.kind, ErrorKind::NotAnImage | ErrorKind::Document) => {
                Ok(None)
            }
            outcome => outcome,
        }
    }

    /// Writes a line for an image, and takes those before it away; `false` if nothing had to be
    /// written.
    fn note(
        &self,
        image: &RemoteImage,
        packages: Option<&Packages>,
        before: &[String],
        changer: Changer,
    ) -> Result<bool> {
        let place = &image.place;
        let repository = self.index_of(&place.namespace);
        let newest = newest(before);
        let same = newest.as_ref().filter(|(entry, _)| entry.digest == image.digest);
        let is_right = same.is_some() && before.len() == 1;
        let listed = match same {
            Some(_) if is_right && packages.is_none() => return Ok(false),
            Some((_, line)) => self.packages_of_line(&repository, line)?,
            None => None,
        };
        if is_right && listed.is_some() {
            return Ok(false);
        }
        let packages = packages.or(listed.as_ref());
        // The clocks of hosts differ, and the newest line is the one that counts.
        let after = newest.as_ref().map_or(0, |(entry, _)| entry.date.as_second() + 1);
        let now = Timestamp::now().as_second().max(after);
        let date = Timestamp::from_second(now).unwrap_or_else(|_| Timestamp::now());
        let tag = Entry::tag(&place.label, &image.digest, image.size, date);
        let annotations = Annotations::from([
            (entry::LABEL.to_owned(), place.label.to_string()),
            // Every line has a manifest of its own: registries delete manifests, and with one
            // all its tags.
            (entry::LINE.to_owned(), tag.clone()),
        ]);
        self.put_small_blob(&repository, EMPTY)?;
        let layer = match packages {
            Some(packages) => {
                self.put_small_blob(&repository, &packages.bytes)?;
                packages.layer()
            }
            None => Descriptor::empty_config(),
        };
        let manifest = to_bytes(&Manifest::artifact(entry::KIND, vec![layer], annotations));
        self.put_document(&repository, &tag, MANIFEST, &manifest)?;
        if same.is_none() {
            let before = newest.as_ref().map(|(entry, _)| &entry.digest);
            self.log(place, before, Some(&image.digest), changer == Changer::Us)?;
        }
        for old in before.iter().filter(|old| **old != tag) {
            self.remove_line(&repository, old)?;
        }
        Ok(true)
    }

    /// Asks for the state of a list, where one is known only whether it is the same. It is gone
    /// where no one keeps it.
    pub(crate) fn state(
        &self,
        namespace: &Namespace,
        known: Option<&OciDigest>,
    ) -> Result<Changed> {
        self.document_unless(&self.state_of(namespace), entry::STATE, known)
    }

    /// Gives a list another state. Comes after every change of it.
    pub(crate) fn change_state(&self, namespace: &Namespace) -> Result<()> {
        let repository = self.state_of(namespace);
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| self.client.odd("this system has no random numbers"))?;
        let state = format!("{:032x}", u128::from_le_bytes(bytes));
        let annotations = Annotations::from([(entry::STATE_VALUE.to_owned(), state)]);
        let layers = vec![Descriptor::empty_config()];
        let manifest = to_bytes(&Manifest::artifact(entry::STATE_KIND, layers, annotations));
        let before = self.digest_of(&repository, entry::STATE)?;
        self.put_small_blob(&repository, EMPTY)?;
        self.put_document(&repository, entry::STATE, MANIFEST, &manifest)?;
        if let Some(before) = before {
            // Anyone who may write may not always delete, and what is left is small.
            let _ = self.delete_by_digest(&repository, &before);
        }
        Ok(())
    }

    fn state_of(&self, namespace: &Namespace) -> String {
        self.address().repository(&format!("{namespace}/{}", entry::STATE_REPOSITORY))
    }

    fn lines_of(&self, repository: &str, label: &Label) -> Result<Vec<String>> {
        let tags = self.tags(repository)?;
        Ok(tags.into_iter().filter(|tag| entry::is_of(tag, label)).collect())
    }

    fn remove_line(&self, repository: &str, tag: &str) -> Result<()> {
        let Some(digest) = self.digest_of(repository, tag)? else {
            return Ok(());
        };
        self.delete_by_digest(repository, &digest).or_else(|error| match error.kind {
            // The newest line counts; those before it are in no one's way.
            ErrorKind::NoDeletion | ErrorKind::Forbidden | ErrorKind::Unauthorized => Ok(()),
            _ => Err(error),
        })
    }
}
