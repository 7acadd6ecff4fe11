// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The documents of container images, as OCI and as Docker define them, which is nearly the
//! same.

use std::collections::BTreeMap;

use cabane_label::{Digest, escape};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, Platform, digest};

/// A manifest or an index is smaller than this.
pub const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;
/// More layers no image has; container engines make no more than 127.
const MOST_LAYERS: usize = 1000;
/// The name of an image in an index of a directory.
const NAME: &str = "org.opencontainers.image.ref.name";
/// Says what something is that is no image.
const KIND: &str = "vnd.docker.reference.type";

/// Points to content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
    /// For which platform it is, in an index.
    pub platform: Option<Platform>,
    /// The name that it has in an index.
    pub name: Option<String>,
    /// Whether it is about an image, and none itself.
    pub is_attached: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawDocument {
    manifests: Option<Vec<RawDescriptor>>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
}

/// What a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// A list of images.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Manifest),
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What it starts.
    pub config: Descriptor,
    /// What it is made of, the lowest first.
    pub layers: Vec<Descriptor>,
}

impl Document {
    /// Reads a manifest or an index.
    ///
    /// # Errors
    ///
    /// Something else; `what` names it.
    pub fn read(bytes: &[u8], what: &str) -> Result<Self, Error> {
        let raw: RawDocument = json(bytes, what)?;
        let checked = |raw: RawDescriptor| raw.checked(what);
        match (raw.manifests, raw.config, raw.layers) {
            (Some(manifests), ..) => {
                let manifests = manifests.into_iter().map(checked);
                Ok(Self::Index(manifests.collect::<Result<_, _>>()?))
            }
            (None, Some(_), Some(layers)) if layers.len() > MOST_LAYERS => {
                let reason =
                    format!("it has {} layers, and {MOST_LAYERS} is the limit", layers.len());
                Err(Error::document(what, &reason))
            }
            (None, Some(config), Some(layers)) => Ok(Self::Manifest(Manifest {
                config: checked(config)?,
                layers: layers.into_iter().map(checked).collect::<Result<_, _>>()?,
            })),
            _ => Err(Error::document(what, "it is neither an index nor a manifest of an image")),
        }
    }
}

impl RawDescriptor {
    fn checked(self, what: &str) -> Result<Descriptor, Error> {
        let digest = digest::parse(&self.digest).ok_or_else(|| {
            let reason = format!("`{}` is not a sha256", escape(&self.digest));
            Error::document(what, &reason)
        })?;
        let annotations = self.annotations.unwrap_or_default();
        let is_unknown = |one: &Platform| one.os == "unknown" || one.architecture == "unknown";
        Ok(Descriptor {
            is_attached: annotations.contains_key(KIND)
                || self.platform.as_ref().is_some_and(is_unknown),
            media_type: self.media_type,
            digest,
            size: self.size,
            platform: self.platform.map(|raw| Platform {
                variant: raw.variant.filter(|variant| !variant.is_empty()),
                ..raw
            }),
            name: annotations.get(NAME).cloned(),
        })
    }
}

/// What a container image says about itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) variant: Option<String>,
    #[serde(rename = "config")]
    pub(crate) run: Option<Run>,
    pub(crate) rootfs: RootFs,
    /// Everything that is there.
    #[serde(skip)]
    pub(crate) whole: serde_json::Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct RootFs {
    #[serde(default)]
    pub(crate) diff_ids: Vec<String>,
}

/// What it starts, and how.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Run {
    pub(crate) env: Option<Vec<String>>,
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) cmd: Option<Vec<String>>,
    pub(crate) working_dir: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Variables that a script of an image of Apptainer computes.
    #[serde(skip)]
    pub(crate) computed: Vec<String>,
}

impl Config {
    /// Reads the configuration of an image.
    ///
    /// # Errors
    ///
    /// Something else.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let what = "the configuration of the image";
        let config: Self = json(bytes, what)?;
        Ok(Self { whole: json(bytes, what)?, ..config })
    }

    /// Returns everything that is there, also what means nothing here.
    #[must_use]
    pub fn whole(&self) -> &serde_json::Value {
        &self.whole
    }

    /// Returns for which platform the image is.
    #[must_use]
    pub fn platform(&self) -> Platform {
        let or = |text: &str, other: &str| match text {
            "" => other.to_owned(),
            text => text.to_owned(),
        };
        Platform {
            os: or(&self.os, "linux"),
            architecture: or(&self.architecture, "unknown"),
            variant: self.variant.clone().filter(|variant| !variant.is_empty()),
        }
    }

    /// Returns the digests of what is in the layers, if as many are named as there are layers.
    pub(crate) fn diff_ids(&self, layers: usize) -> Result<Vec<Digest>, Error> {
        let what = "the configuration of the image";
        let ids = &self.rootfs.diff_ids;
        if ids.len() != layers {
            let reason = format!("it names {} layers, and there are {layers}", ids.len());
            return Err(Error::document(what, &reason));
        }
        let read = |id: &String| {
            let reason = format!("`{}` is not a sha256", escape(id));
            digest::parse(id).ok_or_else(|| Error::document(what, &reason))
        };
        ids.iter().map(read).collect()
    }
}

pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::document(what, &error.to_string()))
}
