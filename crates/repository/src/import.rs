// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bringing an image from a place where its digest, its label and its date are known already:
//! another repository, ours or one of another tool.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::{Digest, Label};
use jiff::Timestamp;

use crate::add::Parcel;
use crate::repository::read_meta_directory;
use crate::signatures::{SIGNATURES, signatures_file};
use crate::transfer::{Progress, Source};
use crate::writer::Writer;
use crate::{AddRequest, Added, Error, Repository, Transfer, disk};

/// What is to be brought, and what is reported about it.
#[derive(Clone, Debug)]
pub struct ImportRequest<'a> {
    /// The label that it has, and gets.
    pub label: Label,
    /// The digest that it must turn out to have.
    pub digest: &'a Digest,
    /// Since when it has had the label.
    pub date: Timestamp,
    /// The image.
    pub image: &'a Path,
    /// The metadata directory of the image, as for [`crate::AddRequest`].
    pub meta: &'a Path,
    /// What happens to the image where it is now: it stays there.
    pub how: Transfer,
    /// Whether a label that another image has is taken from it.
    pub replace: bool,
}

impl Repository {
    /// Brings an image whose digest is known, and compares it before anyone sees the image.
    ///
    /// # Errors
    ///
    /// [`Error::OtherImage`] if the digest is another. [`Error::is_of_source`] tells whether
    /// others can still be brought.
    pub fn import(
        &self,
        request: &ImportRequest<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Added, Error> {
        let source = Source::open(request.image)?;
        let meta = read_meta_directory(request.meta)?;
        let add = AddRequest {
            label: request.label.clone(),
            image: request.image,
            meta: request.meta,
            how: request.how,
            replace: request.replace,
        };
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        writer.sweep()?;
        writer.unlock();
        let parcel = Parcel::pack(&writer, &source, &add, progress)?;
        if parcel.image.digest != *request.digest {
            return Err(Error::OtherImage {
                expected: request.digest.clone(),
                found: parcel.image.digest.clone(),
            });
        }
        bring_signatures(request.image, &parcel.directory);
        writer.lock();
        let (label, date) = (request.label.clone(), Some(request.date));
        parcel.publish_since(&writer, label, date, request.replace, meta.as_ref())
    }

    /// Finds out before a long copy that there is no space for these images, as far as they are
    /// not here. Nothing is said if they come from the same file system: perhaps nothing is
    /// copied at all.
    pub fn check_space(&self, source: &Path, images: &[(Digest, u64)]) -> Result<(), Error> {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let path = self.path();
        if device(source) == device(path) {
            return Ok(());
        }
        let missing: BTreeMap<&Digest, u64> = images
            .iter()
            .filter(|(digest, _)| !self.has_image(digest))
            .map(|(digest, size)| (digest, *size))
            .collect();
        let need = missing.values().sum::<u64>();
        let free = disk::free_space(path).map_err(Error::io("inspect", path))?;
        if need <= free {
            return Ok(());
        }
        Err(Error::NoSpace { path: path.to_owned(), need: Some(need), free: Some(free) })
    }
}

/// Takes what is known of the signatures along, and the time of the image, to which it refers.
/// Where that fails, the image is one that was added by hand.
fn bring_signatures(image: &Path, directory: &Path) {
    let _ = fs::copy(signatures_file(image), directory.join(SIGNATURES));
    if let (Ok(found), Ok(new)) = (fs::metadata(image), disk::open(&directory.join("image"))) {
        let _ = found.modified().and_then(|time| new.set_modified(time));
    }
}
