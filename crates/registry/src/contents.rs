// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What images of a registry say about their packages, without their metadata where possible.
//!
//! Push writes the packages of an image into the manifest of its line in the list, compressed
//! and, as `data`, within the manifest: one request brings them. What was pushed by others has
//! metadata, or nothing. What is in the lines is the caller's; here they are bytes.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabane_label::{Digest, Namespace};
use flate2::Compression;
use flate2::read::GzDecoder;

use crate::document::{Descriptor, Manifest, OciDigest};
use crate::entry::Entry;
use crate::files::read_up_to;
use crate::meta::gzip;
use crate::parallel::each_by_itself;
use crate::{Listed, Registry, Result};

/// What the layer with the packages is called.
const PACKAGES: &str = "application/vnd.cabane.packages.v1+gzip";
/// Manifests have 4 MiB at most; larger lists are got by themselves.
const MOST_WITHIN: usize = 512 * 1024;
/// What a registry may send for a list.
const MOST_PACKED: u64 = 16 * 1024 * 1024;
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// What an image says about its packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These lines, which were passed at push.
    Lines(String),
    /// These files of its metadata.
    Files(BTreeMap<String, Vec<u8>>),
    /// Nothing: it has no metadata.
    Nothing,
}

/// Files of the metadata of an image, by name; `None` if it has no metadata.
pub type MetaFiles = Option<BTreeMap<String, Vec<u8>>>;

/// Lines of packages, packed.
#[derive(Clone, Debug)]
pub(crate) struct Packages {
    pub(crate) bytes: Vec<u8>,
}

impl Packages {
    /// Packs lines; the same ones give the same bytes.
    pub(crate) fn pack(lines: &str) -> Option<Self> {
        let bytes = gzip(lines.as_bytes(), Compression::best()).ok()?;
        Some(Self { bytes })
    }

    /// Returns the layer of a manifest.
    pub(crate) fn layer(&self) -> Descriptor {
        let mut layer = Descriptor::of(PACKAGES, &self.bytes);
        if self.bytes.len() <= MOST_WITHIN {
            layer.data = Some(STANDARD.encode(&self.bytes));
        }
        layer
    }

    /// Returns the content that is embedded in a manifest, if it is there and has the right form.
    fn within(layer: &Descriptor) -> Option<Self> {
        let bytes = STANDARD.decode(layer.data.as_ref()?).ok()?;
        (OciDigest::of(&bytes) == layer.digest).then_some(Self { bytes })
    }

    /// Returns the lines; `None` if they are damaged or too long.
    fn lines(&self) -> Option<String> {
        let lines = read_up_to(MOST_BYTES, GzDecoder::new(self.bytes.as_slice())).ok()??;
        String::from_utf8(lines).ok()
    }
}

impl Registry {
    /// Asks images what they say about their packages: their lines in the list, and where
    /// those say nothing their metadata, of which the named files are got.
    ///
    /// The answers come in the order of the images. An image whose answer cannot be had is an
    /// error of its own.
    ///
    /// # Errors
    ///
    /// That the registry cannot be reached.
    pub fn contents(&self, images: &[Listed], files: &[&str]) -> Result<Vec<Result<Content>>> {
        let mut lines: BTreeMap<&Namespace, HashMap<Digest, String>> = BTreeMap::new();
        for image in images {
            if !lines.contains_key(&image.namespace) {
                let known = self.lines_by_digest(&image.namespace)?;
                lines.insert(&image.namespace, known);
            }
        }
        each_by_itself(images, |image| {
            let known = lines.get(&image.namespace);
            let line = known.and_then(|known| known.get(&image.digest));
            self.content_of(image, line.map(String::as_str), files)
        })
    }

    /// Gets some files of the metadata of images; `None` for an image without metadata.
    ///
    /// The answers come in the order of the images. An image whose answer cannot be had is an
    /// error of its own.
    ///
    /// # Errors
    ///
    /// That the registry cannot be reached.
    pub fn meta_files_of(
        &self,
        images: &[Listed],
        files: &[&str],
    ) -> Result<Vec<Result<MetaFiles>>> {
        each_by_itself(images, |image| self.fetch_meta_files(&self.image(&image.place())?, files))
    }

    fn content_of(&self, image: &Listed, line: Option<&str>, files: &[&str]) -> Result<Content> {
        if let Some(line) = line {
            let repository = self.index_of(&image.namespace);
            let packages = self.packages_of_line(&repository, line)?;
            if let Some(lines) = packages.and_then(|packages| packages.lines()) {
                return Ok(Content::Lines(lines));
            }
        }
        let found = self.fetch_meta_files(&self.image(&image.place())?, files)?;
        Ok(found.map_or(Content::Nothing, Content::Files))
    }

    /// Returns a line of the list for each image that has one.
    fn lines_by_digest(&self, namespace: &Namespace) -> Result<HashMap<Digest, String>> {
        let tags = self.tags(&self.index_of(namespace))?;
        let line = |tag: String| Some((Entry::read(&tag)?.digest, tag));
        Ok(tags.into_iter().filter_map(line).collect())
    }

    /// Gets the packages of a line of the list; `None` if it says nothing about them.
    pub(crate) fn packages_of_line(&self, repository: &str, tag: &str) -> Result<Option<Packages>> {
        let manifest: Option<Manifest> = self.parsed_document("a manifest", repository, tag)?;
        let mut layers = manifest.into_iter().flat_map(|manifest| manifest.layers);
        let Some(layer) = layers.find(|layer| layer.media_type == PACKAGES) else {
            return Ok(None);
        };
        if let Some(packages) = Packages::within(&layer) {
            return Ok(Some(packages));
        }
        // Where it is lost or damaged the metadata say it.
        let bytes = self.blob_if_good(repository, &layer, MOST_PACKED)?;
        Ok(bytes.map(|bytes| Packages { bytes }))
    }

    /// Gets the packages that the list has for an image, for another label of it.
    pub(crate) fn packages_in_list(
        &self,
        namespace: &Namespace,
        digest: &Digest,
    ) -> Result<Option<Packages>> {
        match self.lines_by_digest(namespace)?.get(digest) {
            Some(line) => self.packages_of_line(&self.index_of(namespace), line),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_within_a_manifest_can_be_read_again() {
        let packages = Packages::pack("hdf5\t1.14\n").unwrap();
        let read = Packages::within(&packages.layer()).unwrap();
        assert_eq!(read.lines().as_deref(), Some("hdf5\t1.14\n"));
    }

    #[test]
    fn packages_of_another_digest_are_not_taken() {
        let mut layer = Packages::pack("hdf5\t1.14\n").unwrap().layer();
        layer.data = Packages::pack("hdf5\t1.15\n").unwrap().layer().data;
        assert!(Packages::within(&layer).is_none());
    }
}
