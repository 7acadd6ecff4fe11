// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Taking labels and images away.

use cabane_label::{Digest, Label};

use crate::listing::Listing;
use crate::writer::Writer;
use crate::{Error, Record, Repository};

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The records that are no more.
    pub records: Vec<Record>,
    /// The images that are no more. An image that has another label stays.
    pub images: Vec<Digest>,
}

impl Repository {
    /// Takes a label away, and its image if it has no other label.
    ///
    /// Who has the image mounted keeps it, as far as the file system keeps open files.
    ///
    /// # Errors
    ///
    /// [`Error::IsBase`] if the image would go, and others are built on it.
    pub fn remove(&self, label: &Label) -> Result<Removed, Error> {
        self.remove_label(label, false)
    }

    /// Does what [`Repository::remove`] does, also to an image on which others are built.
    pub fn remove_forced(&self, label: &Label) -> Result<Removed, Error> {
        self.remove_label(label, true)
    }

    fn remove_label(&self, label: &Label, force: bool) -> Result<Removed, Error> {
        let writer = Writer::begin(self.layout())?;
        let refs = writer.refs_of(label)?;
        if refs.is_empty() {
            let repository = self.path().to_owned();
            return Err(Error::NoSuchLabel { label: Box::new(label.clone()), repository });
        }
        if let Some(valid) = refs.last().filter(|_| !force)
            && self.by_digest(&valid.digest)?.len() < 2
        {
            self.refuse_base(&valid.digest)?;
        }
        let refs = writer.without_bases(refs);
        retire(&writer, refs)
    }

    /// Removes an image with all its labels. The image need not have any. None of the labels
    /// goes back to an image that it had before.
    ///
    /// # Errors
    ///
    /// [`Error::IsBase`] if others are built on it.
    pub fn remove_image(&self, digest: &Digest) -> Result<Removed, Error> {
        self.remove_with_labels(digest, false)
    }

    /// Does what [`Repository::remove_image`] does, also to an image on which others are built.
    pub fn remove_image_forced(&self, digest: &Digest) -> Result<Removed, Error> {
        self.remove_with_labels(digest, true)
    }

    /// Refuses to remove an image on which others are built. Under the lock, no other can be added.
    fn refuse_base(&self, digest: &Digest) -> Result<(), Error> {
        let labels = self.built_on(digest)?;
        if labels.is_empty() {
            return Ok(());
        }
        Err(Error::IsBase { digest: digest.clone(), labels })
    }

    fn remove_with_labels(&self, digest: &Digest, force: bool) -> Result<Removed, Error> {
        let writer = Writer::begin(self.layout())?;
        if !force {
            self.refuse_base(digest)?;
        }
        let refs = Listing::read_files(self.layout())?.refs;
        let labels = refs.chunk_by(|one, next| one.label == next.label);
        let refs = labels.flat_map(|refs| {
            let all = refs.last().is_some_and(|valid| valid.digest == *digest);
            refs.iter().filter(move |one| all || one.digest == *digest)
        });
        let refs: Vec<Record> = refs.cloned().collect();
        if refs.is_empty() && !self.layout().image_directory(digest).exists() {
            let repository = self.path().to_owned();
            return Err(Error::NoSuchImage { digest: digest.clone(), repository });
        }
        let mut removed = retire(&writer, refs)?;
        if writer.collect(digest)? {
            removed.images.push(digest.clone());
        }
        Ok(removed)
    }
}

fn retire(writer: &Writer<'_>, refs: Vec<Record>) -> Result<Removed, Error> {
    let images = writer.retire(&refs)?;
    writer.write_index();
    Ok(Removed { records: refs, images })
}
