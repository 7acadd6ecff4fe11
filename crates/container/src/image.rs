// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A container image that can be read, wherever it comes from.

use cabane_label::Digest;

use crate::document::{Config, Descriptor, Document, MAX_DOCUMENT, Manifest};
use crate::layer::{Bytes, Layer};
use crate::{Error, Platform, digest};

/// Something that hands out content by its digest.
pub trait Blobs: Sync {
    /// Opens content for reading. What comes is verified by its reader.
    ///
    /// # Errors
    ///
    /// There is no such content.
    fn open(&self, digest: &Digest) -> std::io::Result<Bytes<'_>>;
}

/// Which image of many is meant, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The digest of its manifest.
    pub digest: Digest,
    /// The manifest as it is written.
    pub bytes: Vec<u8>,
    /// The manifest.
    pub manifest: Manifest,
    /// The digest of the index in which it was found.
    pub index: Option<Digest>,
}

/// A container image that can be read.
pub struct ContainerImage<'a> {
    /// What it says about itself.
    pub config: Config,
    /// The layers, the lowest first.
    pub layers: Vec<Layer<'a>>,
    /// For which platform it is.
    pub platform: Platform,
    /// The digest of its manifest, where there is one.
    pub manifest: Option<Digest>,
    /// The digest of the index in which it was found.
    pub index: Option<Digest>,
    /// The digest of what it says about itself, if that says what is in the layers.
    pub configuration: Option<Digest>,
}

/// Goes from a document to the manifest of one image.
///
/// `get` returns the bytes of a document, which are verified here.
///
/// # Errors
///
/// No image for the platform, documents that are damaged or not what they should be.
pub fn choose(
    bytes: Vec<u8>,
    platform: &Platform,
    get: &mut dyn FnMut(&Descriptor) -> Result<Vec<u8>, Error>,
) -> Result<Chosen, Error> {
    let digest = digest::of(&bytes);
    match Document::read(&bytes, "the manifest")? {
        Document::Manifest(manifest) => Ok(Chosen { digest, bytes, manifest, index: None }),
        Document::Index(list) => choose_of(&list, digest, platform, get),
    }
}

/// Does the same for a list that was read already.
pub(crate) fn choose_of(
    list: &[Descriptor],
    index: Digest,
    platform: &Platform,
    get: &mut dyn FnMut(&Descriptor) -> Result<Vec<u8>, Error>,
) -> Result<Chosen, Error> {
    let mut one = platform.choose(list)?.clone();
    let mut index = index;
    // Lists in lists are allowed, and rare.
    for _ in 0..4 {
        let bytes = get(&one)?;
        let found = digest::of(&bytes);
        if found != one.digest {
            return Err(Error::tampered("a manifest", &one.digest, &found));
        }
        match Document::read(&bytes, "the manifest")? {
            Document::Manifest(manifest) => {
                return Ok(Chosen { digest: found, bytes, manifest, index: Some(index) });
            }
            Document::Index(list) => {
                one = platform.choose(&list)?.clone();
                index = found;
            }
        }
    }
    Err(Error::document("the index", "its lists have no end"))
}

impl<'a> ContainerImage<'a> {
    /// Makes an image of a manifest and the content that belongs to it.
    ///
    /// # Errors
    ///
    /// A configuration that is damaged, or for another platform.
    pub fn new(chosen: &Chosen, blobs: &'a dyn Blobs, platform: &Platform) -> Result<Self, Error> {
        let descriptor = &chosen.manifest.config;
        let bytes = read_small(blobs, descriptor, "the configuration of the image")?;
        let config = Config::read(&bytes)?;
        let layers = &chosen.manifest.layers;
        let diff_ids = config.diff_ids(layers.len())?;
        let its = config.platform();
        if !platform.takes(&its) {
            return Err(Error::no_platform(platform, &[its.to_string()]));
        }
        let layer = |(descriptor, diff_id): (&Descriptor, Digest)| {
            let digest = descriptor.digest.clone();
            Layer {
                name: digest::written(&digest),
                size: Some(descriptor.size),
                digest: Some(digest.clone()),
                diff_id: Some(diff_id),
                is_of_container: true,
                open: Box::new(move || blobs.open(&digest)),
            }
        };
        Ok(Self {
            platform: its,
            layers: layers.iter().zip(diff_ids).map(layer).collect(),
            manifest: Some(chosen.digest.clone()),
            index: chosen.index.clone(),
            configuration: Some(descriptor.digest.clone()),
            config,
        })
    }
}

/// Reads content that is a document, and verifies it.
pub(crate) fn read_small(
    blobs: &dyn Blobs,
    descriptor: &Descriptor,
    what: &str,
) -> Result<Vec<u8>, Error> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| Error::document(what, &error.to_string());
    let mut bytes = Vec::new();
    let source = blobs.open(&descriptor.digest).map_err(failed)?;
    source.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes).map_err(failed)?;
    let found = digest::of(&bytes);
    if bytes.len() as u64 > MAX_DOCUMENT {
        return Err(Error::document(what, "it is larger than 4 MiB"));
    }
    if found != descriptor.digest {
        return Err(Error::tampered(what, &descriptor.digest, &found));
    }
    Ok(bytes)
}
