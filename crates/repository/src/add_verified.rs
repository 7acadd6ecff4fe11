// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adding an image that was downloaded into the repository: it is neither copied nor summed
//! again.

use std::fs;
use std::io;
use std::path::Path;

use cabane_label::{Digest, Label};

use crate::access::make_readable;
use crate::add::{Parcel, taken};
use crate::meta_copy::copy_meta;
use crate::record::KnownImage;
use crate::repository::read_meta_directory;
use crate::transfer::format_of;
use crate::writer::Writer;
use crate::{Access, Added, Error, ImageError, Incoming, Repository, disk, tree};

/// What has been downloaded, and under which label it is to be found.
#[derive(Debug)]
pub struct VerifiedRequest<'a> {
    /// The label.
    pub label: Label,
    /// The place into which the image was downloaded; the image is [`Incoming::image`].
    pub incoming: Incoming,
    /// The sha256 of the bytes in that file, which the caller has computed itself from these
    /// bytes. Nothing else may stand here: it is believed.
    pub digest: &'a Digest,
    /// The metadata directory of the image, as for [`crate::AddRequest`].
    pub meta: &'a Path,
    /// Who may read the image.
    pub access: Access,
    /// Whether a label that another image has is taken from it.
    pub replace: bool,
}

impl Repository {
    /// Takes a downloaded image over and gives it a label.
    ///
    /// This is as safe as [`Repository::add`]. When the label is taken, or something else is in
    /// the way that is found out in time, what was downloaded stays for the next attempt.
    pub fn add_verified(&self, request: VerifiedRequest<'_>) -> Result<Added, Error> {
        let VerifiedRequest { label, incoming, digest, meta, access, replace } = request;
        if incoming.digest() != digest {
            return Err(Error::OtherImage {
                expected: incoming.digest().clone(),
                found: digest.clone(),
            });
        }
        let (known, image) = (read_meta_directory(meta)?, incoming.image());
        let known_image = look_at(&image, digest)?;
        let mut writer = Writer::begin(self.layout())?;
        match writer.refs_of(&label)?.pop() {
            Some(record) if !replace && record.digest != *digest => {
                return Err(taken(&label, record.digest));
            }
            _ => {}
        }
        writer.unlock();

        let directory = writer.staging.free_name("new");
        fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
        access.close_directory(&directory)?;
        copy_meta(meta, &directory.join("meta"))?;
        match access {
            Access::AsNewFiles => make_readable(&image),
            Access::Group(_) | Access::Owner => access.close_file(&image)?,
        }
        tree::write_beside(&image, &directory.join(writer.layout.tree_name()), access)?;
        writer.claim(digest);
        // From here to the end a kill loses what was downloaded, so that little is left to do.
        writer.lock();
        // Someone may have brought it who did not know for whom it is.
        if self.has_image(digest) {
            restrict(&writer, digest, access)?;
        }
        let place = directory.join(writer.layout.image_name());
        fs::rename(&image, &place).map_err(Error::io("move", &image))?;
        let parcel = Parcel { directory: directory.clone(), image: known_image };
        let added = disk::sync_directory(&directory)
            .map_err(Error::io("write", &directory))
            .and_then(|()| parcel.publish(&writer, label, None, replace, known.as_ref()));
        if added.is_err() {
            let _ = fs::rename(&place, &image);
        } else {
            // What stays is swept.
            let _ = incoming.discard();
        }
        added
    }
}

impl Repository {
    /// Closes an image that is there to everyone but these, if everyone may read it. Returns
    /// who may read it then: one that is for others already is not touched.
    pub fn restrict(&self, digest: &Digest, access: Access) -> Result<Access, Error> {
        if access == Access::AsNewFiles {
            return Ok(access);
        }
        // What images share is for everyone.
        self.plain_image(digest)?;
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let restricted = restrict(&writer, digest, access)?;
        writer.forget_parts(digest)?;
        writer.collect_packs();
        Ok(restricted)
    }
}

pub(crate) fn restrict(
    writer: &Writer<'_>,
    digest: &Digest,
    access: Access,
) -> Result<Access, Error> {
    let layout = writer.layout;
    let place = layout.image_directory(digest);
    let before = Access::of_directory(&place, &layout.images());
    if access == Access::AsNewFiles || before != Access::AsNewFiles {
        return Ok(before);
    }
    access.close_directory(&place)?;
    // A deduplicated image has no file yet, and gets the one that was brought.
    if !layout.is_deduplicated(digest) {
        access.close_file(&layout.image(digest))?;
    }
    if layout.tree(digest).exists() {
        access.close_file(&layout.tree(digest))?;
    }
    // The labels that it has were written when everyone might read its metadata. A database has none
    // of these.
    let refs = if layout.is_uenv() { Vec::new() } else { writer.refs_with(digest)? };
    for record in refs {
        let bare = record.without_content();
        if bare != record {
            writer.write_ref(&bare)?;
            writer.remove_ref(&record.ref_name())?;
        }
    }
    writer.write_index();
    Ok(access)
}

/// Checks the header of an image, and waits until the file is on disk.
fn look_at(path: &Path, digest: &Digest) -> Result<KnownImage, Error> {
    let found = fs::symlink_metadata(path).map_err(Error::io("read", path))?;
    if found.is_symlink() {
        return Err(Error::Image {
            path: path.to_owned(),
            source: ImageError::Unusable("it is a symbolic link and not a file".to_owned()),
        });
    }
    let file = disk::open(path).map_err(Error::io("read", path))?;
    let format = format_of(&file, path)?;
    match file.sync_all() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
            return Err(Error::io("write", path)(error));
        }
        _ => {}
    }
    Ok(KnownImage { digest: digest.clone(), size: found.len(), format })
}
