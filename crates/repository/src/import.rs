// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Bringing an image from a place where its digest, its label and its date are known already:
//! another repository, ours or one of another tool.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::Digest;
use jiff::Timestamp;

use crate::add::Parcel;
use crate::evidence::EVIDENCE;
use crate::layout::Layout;
use crate::references::REFERENCES;
use crate::repository::read_meta_directory;
use crate::signatures::{SIGNATURES, signatures_file};
use crate::transfer::{Progress, Source};
use crate::writer::Writer;
use crate::{AddRequest, Added, Error, Repository, disk};

impl Repository {
    /// Brings an image whose digest is known, and compares it before anyone sees the image. It is
    /// not moved, and has had its label since a date.
    ///
    /// # Errors
    ///
    /// [`Error::OtherImage`] if the digest is another. [`Error::is_of_source`] tells whether
    /// others can still be brought.
    pub fn import(
        &self,
        request: &AddRequest<'_>,
        digest: &Digest,
        date: Timestamp,
        progress: &mut Progress<'_>,
    ) -> Result<Added, Error> {
        let source = Source::open(request.image)?;
        let meta = read_meta_directory(request.meta)?;
        let mut writer = Writer::begin(self.layout())?;
        writer.unlock();
        let parcel = Parcel::pack(&writer, &source, request, progress)?;
        if parcel.image.digest != *digest {
            let (expected, found) = (digest.clone(), parcel.image.digest);
            return Err(Error::OtherImage { expected, found });
        }
        bring_signatures(request.image, &parcel.directory, self.layout());
        writer.claim(digest);
        writer.lock();
        parcel.publish(&writer, request.label.clone(), Some(date), request.replace, meta.as_ref())
    }

    /// Finds out before a long copy that there is no space for these images, as far as they are
    /// not here. Nothing is reported if they come from the same file system: perhaps nothing is
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

/// Takes what is known of the signatures and of the sources along, and the time of the image, to which the
/// signatures refer.
/// Where that fails, the image is one that was added by hand.
fn bring_signatures(image: &Path, directory: &Path, layout: &Layout) {
    let _ = fs::copy(signatures_file(image), directory.join(SIGNATURES));
    let _ = fs::copy(image.with_file_name(EVIDENCE), directory.join(EVIDENCE));
    let _ = fs::copy(image.with_file_name(REFERENCES), directory.join(REFERENCES));
    if let Some(name) = image.file_name().and_then(OsStr::to_str) {
        let signature = image.with_file_name(format!("{name}.verity.p7s"));
        let _ = fs::copy(signature, directory.join(layout.root_signature_name()));
    }
    if let (Ok(found), Ok(new)) =
        (fs::metadata(image), disk::open(&directory.join(layout.image_name())))
    {
        let _ = found.modified().and_then(|time| new.set_modified(time));
    }
}
