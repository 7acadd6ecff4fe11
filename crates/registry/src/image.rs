// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images in a registry: which blob is the image, and what is attached to it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use cabane_label::{Digest, Label, Namespace, escape};
use cabane_report::{Kind, Report};
use jiff::Timestamp;

use crate::chunks::{CHUNKS, ChunkList, MAX_LIST};
use crate::document::{Annotations, CREATED, Descriptor, INDEX, Manifest, OciDigest, TITLE};
use crate::meta::{MAX_ARCHIVE, files_of, unpack};
use crate::registry::Document;
use crate::{Error, ErrorKind, Place, Registry, Result};

/// What uenv calls an image, whatever file system is in it.
pub(crate) const SQUASHFS: &str = "application/x-squashfs";
pub(crate) const EROFS: &str = "application/x-erofs";
/// What uenv calls attached metadata.
pub(crate) const META: &str = "uenv/meta";
/// The signature of a root hash.
pub(crate) const ROOT_SIGNATURE: &str = "application/vnd.cabane.verity.signature.v1";
/// What a registry may send for it; the helper takes no more.
const MOST_OF_SIGNATURE: u64 = 16 * 1024;

/// An image in a registry, found by its label.
#[derive(Clone, Debug)]
pub struct RemoteImage {
    /// Where it is.
    pub place: Place,
    /// The sha256 of the image, by which it is known once it is pulled.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// When it was pushed, if known.
    pub created: Option<Timestamp>,
    /// The sha256 of the manifest, by which the registry knows it.
    pub manifest: Digest,
    pub(crate) media_type: String,
    pub(crate) repository: String,
    /// The manifest as it came.
    pub(crate) document: Vec<u8>,
}

impl Registry {
    /// Finds the image that has a label.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSuchImage`], or that something else has this name.
    pub fn image(&self, place: &Place) -> Result<RemoteImage> {
        let found = self.image_if_there(place)?;
        found.ok_or_else(|| self.no_such_image(place))
    }

    pub(crate) fn no_such_image(&self, place: &Place) -> Error {
        let message = format!("no image `{place}` in the registry {}", self.address());
        let report = Report::new(Kind::NotFound, message).hinted(format!(
            "`cabane image find '{}::{}@*'` lists what there is of that name",
            place.namespace, place.label.name
        ));
        Error::new(ErrorKind::NoSuchImage, report)
    }

    /// Finds the image that has a label; `None` if none has.
    ///
    /// # Errors
    ///
    /// That something else has this name, or that the registry was not reached.
    pub fn image_if_there(&self, place: &Place) -> Result<Option<RemoteImage>> {
        let repository = self.repository(place)?;
        let document = self.document(&repository, place.tag())?;
        document.map(|document| self.read_image(place, repository, document)).transpose()
    }

    pub(crate) fn read_image(
        &self,
        place: &Place,
        repository: String,
        document: Document,
    ) -> Result<RemoteImage> {
        let not_one = |reason: &str| {
            let message = format!("`{place}` is not an image that can be mounted: {reason}");
            Error::new(ErrorKind::NotAnImage, Report::new(Kind::BadInput, message))
        };
        let kind: DocumentKind = self.client.parse("a manifest", &document.bytes)?;
        if kind.media_type.as_deref() == Some(INDEX) || kind.manifests.is_some() {
            return Err(not_one("it is a list of images"));
        }
        let manifest: Manifest = self.client.parse("a manifest", &document.bytes)?;
        let layer = image_layer(&manifest).ok_or_else(|| {
            let (kind, count) = (escape(manifest.kind()), manifest.layers.len());
            not_one(&format!("it is a `{kind}` of {count} parts"))
        })?;
        let created = manifest.annotations.get(CREATED);
        Ok(RemoteImage {
            place: place.clone(),
            digest: layer.digest.0.clone(),
            size: layer.size,
            created: created.and_then(|date| date.parse().ok()),
            manifest: document.digest.0,
            media_type: layer.media_type.clone(),
            repository,
            document: document.bytes,
        })
    }

    /// Gets the metadata of an image into an empty directory; `false` if it has none.
    ///
    /// # Errors
    ///
    /// Metadata that are not what was announced, or that cannot be unpacked.
    pub fn fetch_meta(&self, image: &RemoteImage, into: &Path) -> Result<bool> {
        let Some((layer, bytes)) = self.meta_archive(image)? else {
            return Ok(false);
        };
        unpack(&layer, &bytes, into).map_err(|reason| refused(image, &reason.to_string()))?;
        Ok(true)
    }

    /// Gets some files of the metadata of an image; `None` if it has no metadata. Those that
    /// are not there are left out.
    ///
    /// # Errors
    ///
    /// Metadata that are not what was announced.
    pub fn fetch_meta_files(
        &self,
        image: &RemoteImage,
        names: &[&str],
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>> {
        let archive = self.meta_archive(image)?;
        let files = archive.map(|(layer, bytes)| files_of(&layer, &bytes, names));
        let files = files.transpose().map_err(|reason| refused(image, &reason.to_string()))?;
        Ok(files)
    }

    /// Gets the metadata of an image, packed.
    fn meta_archive(&self, image: &RemoteImage) -> Result<Option<(Descriptor, Vec<u8>)>> {
        let Some(newest) = self.newest(image, META)? else {
            return Ok(None);
        };
        let manifest: Option<Manifest> =
            self.parsed_document("a manifest", &image.repository, &newest)?;
        let manifest = manifest.ok_or_else(|| refused(image, "the registry has lost them"))?;
        let layer: Result<[Descriptor; 1], _> = manifest.layers.try_into();
        let [layer] = layer.map_err(|_| refused(image, "they are not in one archive"))?;
        let bytes = self.small_blob(&image.repository, &layer, MAX_ARCHIVE)?;
        Ok(Some((layer, bytes)))
    }

    /// Gets the list of the chunks of an image, if one is attached.
    pub(crate) fn chunks_of(&self, image: &RemoteImage) -> Result<Option<ChunkList>> {
        let Some(newest) = self.newest(image, CHUNKS)? else {
            return Ok(None);
        };
        let manifest: Option<Manifest> =
            self.parsed_document("a manifest", &image.repository, &newest)?;
        let Some(layer) = manifest.as_ref().and_then(|manifest| manifest.layers.first()) else {
            return Ok(None);
        };
        let bytes = self.small_blob(&image.repository, layer, MAX_LIST)?;
        Ok(ChunkList::from_bytes(&bytes, image.size))
    }

    /// Gets the signature of the root hash of an image, if one is attached. What it is worth only a
    /// kernel knows.
    ///
    /// # Errors
    ///
    /// That the registry does not tell.
    pub fn root_signature(&self, image: &RemoteImage) -> Result<Option<Vec<u8>>> {
        let Some(newest) = self.newest(image, ROOT_SIGNATURE)? else {
            return Ok(None);
        };
        let manifest: Option<Manifest> =
            self.parsed_document("a manifest", &image.repository, &newest)?;
        let layer = manifest.as_ref().and_then(|manifest| manifest.layers.first());
        let blob = |layer| self.small_blob(&image.repository, layer, MOST_OF_SIGNATURE);
        layer.map(blob).transpose()
    }

    /// Returns the digest of what was attached last, of one kind.
    fn newest(&self, image: &RemoteImage, kind: &str) -> Result<Option<String>> {
        let subject = OciDigest(image.manifest.clone());
        let mut found = self.referrers(&image.repository, &subject, kind)?;
        let date = |found: &Descriptor| -> Option<Timestamp> {
            found.annotations.get(CREATED)?.parse().ok()
        };
        // Of several without a date the last one in the list is the newest.
        found.sort_by_key(date);
        Ok(found.pop().map(|newest| newest.digest.to_string()))
    }
}

fn refused(image: &RemoteImage, reason: &str) -> Error {
    let (place, reason) = (&image.place, escape(reason));
    let message = format!("the metadata of `{place}` cannot be unpacked: {reason}");
    Error::new(ErrorKind::Document, Report::new(Kind::BadInput, message))
}

/// What is looked at first: an index has no layers.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentKind {
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
}

/// Returns the blob that is the image.
pub(crate) fn image_layer(manifest: &Manifest) -> Option<&Descriptor> {
    let is_named = |layer: &&Descriptor| {
        let title = layer.annotations.get(TITLE).map(Path::new);
        let ending = title.and_then(Path::extension).and_then(OsStr::to_str);
        matches!(ending, Some("squashfs" | "sqfs" | "erofs"))
    };
    match (manifest.layers.as_slice(), manifest.kind()) {
        ([layer], SQUASHFS | EROFS) => Some(layer),
        (layers, _) => layers.iter().find(is_named),
    }
}

/// Returns the annotations of what was made at a time.
pub(crate) fn dated(created: Timestamp) -> Annotations {
    let date = created.strftime("%FT%TZ").to_string();
    Annotations::from([(CREATED.to_owned(), date)])
}

/// An image that a registry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The part of the registry.
    pub namespace: Namespace,
    /// The label.
    pub label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// When it was made, if known.
    pub date: Option<Timestamp>,
    /// The digest of its manifest, where that was seen.
    pub manifest: Option<Digest>,
}

impl Listed {
    pub(crate) fn of(image: &RemoteImage) -> Self {
        Self {
            namespace: image.place.namespace.clone(),
            label: image.place.label.clone(),
            digest: image.digest.clone(),
            size: image.size,
            date: image.created,
            manifest: Some(image.manifest.clone()),
        }
    }

    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { namespace: self.namespace.clone(), label: self.label.clone() }
    }
}
