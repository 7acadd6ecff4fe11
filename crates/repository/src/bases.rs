// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images on which others are built. They are needed for as long as the others are here, whatever
//! their labels mean by then.

use std::collections::BTreeSet;

use cabane_label::{Digest, Label};

use crate::layout::Layout;
use crate::repository::read_meta_directory;
use crate::{Error, Record, Repository, disk};

impl Repository {
    /// Returns the labels of the images that are built on this one, sorted.
    ///
    /// # Errors
    ///
    /// The repository cannot be read.
    pub fn built_on(&self, digest: &Digest) -> Result<Vec<Label>, Error> {
        let is_built_on = |one: &Record| {
            one.digest != *digest && of_image(self.layout(), &one.digest).contains(digest)
        };
        Ok(self.records()?.into_iter().filter(is_built_on).map(|one| one.label).collect())
    }
}

/// Returns the images on which an image is built, as its metadata say. Metadata that are damaged or closed
/// keep no other image.
pub(crate) fn of_image(layout: &Layout, digest: &Digest) -> BTreeSet<Digest> {
    let meta = read_meta_directory(&layout.meta(digest)).ok().flatten();
    meta.into_iter().flat_map(|meta| meta.bases).map(|base| base.digest).collect()
}

/// Returns the images on which the images that are here are built.
pub(crate) fn of_all(layout: &Layout) -> BTreeSet<Digest> {
    let names = disk::names(&layout.images()).unwrap_or_default();
    let digests = names.iter().filter_map(|name| name.parse::<Digest>().ok());
    digests.flat_map(|digest| of_image(layout, &digest)).collect()
}
