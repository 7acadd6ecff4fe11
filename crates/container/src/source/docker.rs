// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `docker save` writes.
//!
//! ```text
//! manifest.json           the images: their configurations, names and layers
//! <digest>.json           a configuration
//! <id>/layer.tar          a layer; since 2023 blobs/sha256/<digest>
//! ```
//!
//! Before 2016 there was no `manifest.json`: each layer had a configuration of its own that
//! named the one below it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, escape};
use serde::Deserialize;

use super::Archive;
use crate::document::{Config, json};
use crate::layer::Layer;
use crate::{ContainerImage, Error, Platform, digest};

/// Longer chains of layers have no end.
const MOST_LAYERS: usize = 1000;

/// An archive that `docker save` wrote.
#[derive(Debug)]
pub struct DockerArchive {
    path: PathBuf,
    archive: Archive,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// The configuration of one layer, as it was before 2016.
#[derive(Deserialize)]
struct OldLayer {
    parent: Option<String>,
}

/// What belongs to one image.
struct Parts {
    config: Vec<u8>,
    layers: Vec<String>,
    is_old: bool,
}

impl DockerArchive {
    /// Opens an archive; one that is compressed is unpacked in `scratch`.
    ///
    /// # Errors
    ///
    /// Something else.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), archive: Archive::open(path, scratch)? })
    }

    /// Chooses an image, by its name if there are several. Returns its identity, too.
    ///
    /// # Errors
    ///
    /// None of this name, or one for another platform.
    pub fn image(
        &self,
        name: Option<&str>,
        platform: &Platform,
    ) -> Result<(ContainerImage<'_>, Digest), Error> {
        let parts = match self.archive.document(b"manifest.json") {
            Ok(bytes) => self.saved(&bytes, name)?,
            Err(_) => self.saved_long_ago(name)?,
        };
        let config = Config::read(&parts.config)?;
        let its = config.platform();
        if !platform.takes(&its) {
            return Err(Error::no_platform(platform, &[its.to_string()]));
        }
        let ids = if parts.is_old { Vec::new() } else { config.diff_ids(parts.layers.len())? };
        let mut ids = ids.into_iter();
        let identity = digest::of(&parts.config);
        let layers = parts.layers.iter().map(|name| self.layer(name, ids.next()));
        let image = ContainerImage {
            layers: layers.collect(),
            platform: its,
            config,
            manifest: None,
            index: None,
            configuration: (!parts.is_old).then(|| identity.clone()),
        };
        Ok((image, identity))
    }

    fn layer(&self, name: &str, diff_id: Option<Digest>) -> Layer<'_> {
        let member = name.to_owned();
        let open = move || self.archive.member(member.as_bytes());
        let layer = Layer::of_files(escape(name).to_string(), open);
        Layer { diff_id, is_of_container: true, ..layer }
    }

    fn saved(&self, bytes: &[u8], name: Option<&str>) -> Result<Parts, Error> {
        let saved: Vec<Saved> = json(bytes, "manifest.json")?;
        let tags = |one: &Saved| one.repo_tags.clone().unwrap_or_default();
        let fits = |one: &&Saved| match name {
            None => saved.len() == 1,
            Some(name) => tags(one).iter().any(|tag| is_called(tag, name)),
        };
        let one = saved.iter().find(fits);
        let one =
            one.ok_or_else(|| Error::no_such_name(&self.path, name, saved.iter().flat_map(tags)))?;
        let config = self.archive.document(one.config.as_bytes());
        let config = config.map_err(|error| {
            Error::document("the configuration of the image", &error.to_string())
        })?;
        Ok(Parts { config, layers: one.layers.clone(), is_old: false })
    }

    /// Reads an archive without a manifest.
    fn saved_long_ago(&self, name: Option<&str>) -> Result<Parts, Error> {
        type Names = BTreeMap<String, BTreeMap<String, String>>;
        let bytes = self.archive.document(b"repositories");
        let bytes = bytes.map_err(|_| {
            let reason = "it has neither an index.json nor a manifest.json";
            Error::not_an_image(&self.path, reason)
        })?;
        let names: Names = json(&bytes, "repositories")?;
        let all: Vec<(String, &String)> = names
            .iter()
            .flat_map(|(name, tags)| {
                tags.iter().map(move |(tag, id)| (format!("{name}:{tag}"), id))
            })
            .collect();
        let fits = |(tag, _): &&(String, &String)| match name {
            None => all.len() == 1,
            Some(name) => is_called(tag, name),
        };
        let tags = || all.iter().map(|(tag, _)| tag.clone());
        let found = all.iter().find(fits);
        let (_, top) = found.ok_or_else(|| Error::no_such_name(&self.path, name, tags()))?;
        let (mut layers, mut next) = (Vec::new(), Some((*top).clone()));
        let mut config = None;
        while let Some(id) = next.take() {
            let what = "the configuration of a layer";
            let bytes = self.archive.document(format!("{id}/json").as_bytes());
            let bytes = bytes.map_err(|error| Error::document(what, &error.to_string()))?;
            let layer: OldLayer = json(&bytes, what)?;
            next = layer.parent.filter(|parent| !parent.is_empty());
            config.get_or_insert(bytes);
            layers.push(format!("{id}/layer.tar"));
            if layers.len() > MOST_LAYERS {
                return Err(Error::document(what, "its chain has no end"));
            }
        }
        layers.reverse();
        Ok(Parts { config: config.unwrap_or_default(), layers, is_old: true })
    }
}

/// Whether an image is meant that has this name; the registry and the tag may be left out.
fn is_called(tag: &str, name: &str) -> bool {
    let name = match name.rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => name.to_owned(),
        _ => format!("{name}:latest"),
    };
    let registry = tag.strip_suffix(&name);
    registry.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
}
