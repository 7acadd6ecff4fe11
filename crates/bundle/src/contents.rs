// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a bundle says of itself. The registry in it is checked on its own, whatever is written here.

use cabane_label::{Digest, Label, Namespace};
use cabane_registry::{BaseImage, ChannelPlace, Place};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// What a bundle says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The version of the format, 1.
    pub version: u32,
    /// The address of the registry from which the images are.
    pub registry: String,
    /// The channels that are in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<BundledChannel>,
    /// The images.
    pub images: Vec<BundledImage>,
}

/// A channel in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledChannel {
    namespace: Namespace,
    channel: cabane_label::ChannelName,
    system: cabane_label::System,
}

impl From<&ChannelPlace> for BundledChannel {
    fn from(place: &ChannelPlace) -> Self {
        Self {
            namespace: place.namespace.clone(),
            channel: place.name.clone(),
            system: place.system.clone(),
        }
    }
}

impl BundledChannel {
    /// Returns which channel it is.
    #[must_use]
    pub fn place(&self) -> ChannelPlace {
        ChannelPlace {
            namespace: self.namespace.clone(),
            name: self.channel.clone(),
            system: self.system.clone(),
        }
    }
}

/// An image in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledImage {
    namespace: Namespace,
    label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The sha256 of its manifest.
    pub manifest: Digest,
    /// Where it is there in part: where each part begins, and how long it is, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<(u64, u64)>>,
    /// The images that have what is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<BundledBase>,
    /// Whether it is there only because another image is built on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_base: bool,
}

/// An image that has what is missing of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledBase {
    namespace: Namespace,
    label: Label,
    digest: Digest,
}

impl From<&BaseImage> for BundledBase {
    fn from(base: &BaseImage) -> Self {
        let Place { namespace, label } = base.place.clone();
        Self { namespace, label, digest: base.digest.clone() }
    }
}

impl BundledBase {
    /// Returns which image it is.
    #[must_use]
    pub fn image(&self) -> BaseImage {
        let place = Place { namespace: self.namespace.clone(), label: self.label.clone() };
        BaseImage { place, digest: self.digest.clone() }
    }
}

impl BundledImage {
    /// Describes an image that is there as a whole.
    #[must_use]
    pub fn new(place: &Place, digest: Digest, size: u64, manifest: Digest) -> Self {
        let Place { namespace, label } = place.clone();
        let bases = Vec::new();
        Self { namespace, label, digest, size, manifest, parts: None, bases, is_base: false }
    }

    /// Says whether it is there only because another image is built on it.
    #[must_use]
    pub fn as_base(self, is_base: bool) -> Self {
        Self { is_base, ..self }
    }

    /// Describes one of which only parts are there, and the images that have the rest.
    #[must_use]
    pub fn only(self, parts: Vec<(u64, u64)>, bases: &[BaseImage]) -> Self {
        Self { parts: Some(parts), bases: bases.iter().map(Into::into).collect(), ..self }
    }

    /// Returns its label, and the part of the registry.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { namespace: self.namespace.clone(), label: self.label.clone() }
    }

    /// Returns how many bytes of it are there.
    #[must_use]
    pub fn bytes_there(&self) -> u64 {
        let sum = |parts: &Vec<(u64, u64)>| parts.iter().map(|(_, length)| length).sum();
        self.parts.as_ref().map_or(self.size, sum)
    }
}
