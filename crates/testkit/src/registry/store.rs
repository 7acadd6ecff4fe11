// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a registry in memory holds: blobs, manifests, tags, uploads that are not done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the digest of some bytes: `sha256:` and 64 digits.
pub fn digest_of(bytes: &[u8]) -> String {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        digest.push_str(&format!("{byte:02x}"));
    }
    digest
}

/// A manifest as it was put.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) media_type: String,
    pub(super) content: Arc<Vec<u8>>,
}

impl Manifest {
    /// What it says, if it is JSON.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.content).ok()
    }

    /// The digest of what it is about.
    pub(super) fn subject(&self) -> Option<String> {
        let digest = self.json()?["subject"]["digest"].as_str()?.to_owned();
        Some(digest)
    }

    /// What an index says about it.
    pub(super) fn descriptor(&self, digest: &str) -> Value {
        let mut descriptor = serde_json::json!({
            "mediaType": self.media_type,
            "digest": digest,
            "size": self.content.len(),
        });
        let content = self.json().unwrap_or_default();
        let config = content["config"]["mediaType"].as_str();
        let kind = content["artifactType"].as_str().or(config);
        if let Some(kind) = kind {
            descriptor["artifactType"] = kind.into();
        }
        if content["annotations"].is_object() {
            descriptor["annotations"] = content["annotations"].clone();
        }
        descriptor
    }

    /// The first of the blobs or manifests that it is made of and that are not there.
    pub(super) fn missing_part(&self, repository: &Repository) -> Option<String> {
        let content = self.json().unwrap_or_default();
        let layers = content["layers"].as_array();
        let config = content.get("config");
        let blobs = config.into_iter().chain(layers.into_iter().flatten());
        let blobs = blobs.filter_map(|blob| blob["digest"].as_str());
        let mut missing_blobs = blobs.filter(|&digest| !repository.blobs.contains(digest));
        let manifests = content["manifests"].as_array().into_iter().flatten();
        let manifests = manifests.filter_map(|manifest| manifest["digest"].as_str());
        let mut missing = manifests.filter(|&digest| !repository.manifests.contains_key(digest));
        missing_blobs.next().or_else(|| missing.next()).map(str::to_owned)
    }
}

/// One name in a registry.
#[derive(Debug, Default)]
pub(super) struct Repository {
    pub(super) blobs: BTreeSet<String>,
    pub(super) manifests: BTreeMap<String, Manifest>,
    pub(super) tags: BTreeMap<String, String>,
}

impl Repository {
    /// The digest that a tag or a digest stands for, if there is a manifest.
    pub(super) fn digest_of_reference(&self, reference: &str) -> Option<String> {
        let digest = self.tags.get(reference);
        let digest = digest.map_or(reference, String::as_str);
        self.manifests.contains_key(digest).then(|| digest.to_owned())
    }
}

/// Everything that is held.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) repositories: BTreeMap<String, Repository>,
    /// By their digests, no matter who has them.
    contents: BTreeMap<String, Arc<Vec<u8>>>,
    /// What has come of uploads, by their numbers.
    pub(super) uploads: BTreeMap<usize, Vec<u8>>,
    last_upload: usize,
}

impl Store {
    /// Holds a blob under a digest, which may be wrong.
    pub(super) fn put_blob(&mut self, name: &str, digest: &str, content: Vec<u8>) {
        self.contents.insert(digest.to_owned(), Arc::new(content));
        self.mount(name, digest);
    }

    /// Makes a blob that is there one of a name, too.
    pub(super) fn mount(&mut self, name: &str, digest: &str) {
        let repository = self.repositories.entry(name.to_owned()).or_default();
        repository.blobs.insert(digest.to_owned());
    }

    /// The content of a blob.
    pub(super) fn blob(&self, name: &str, digest: &str) -> Option<Arc<Vec<u8>>> {
        let repository = self.repositories.get(name)?;
        let is_there = repository.blobs.contains(digest);
        is_there.then(|| self.contents.get(digest).cloned())?
    }

    /// Holds a manifest, and returns its digest.
    pub(super) fn put_manifest(
        &mut self,
        name: &str,
        reference: &str,
        manifest: Manifest,
    ) -> String {
        let digest = digest_of(&manifest.content);
        let repository = self.repositories.entry(name.to_owned()).or_default();
        repository.manifests.insert(digest.clone(), manifest);
        if reference != digest {
            let tag = reference.to_owned();
            repository.tags.insert(tag, digest.clone());
        }
        digest
    }

    /// The manifest under a tag or a digest, with its digest.
    pub(super) fn manifest(&self, name: &str, reference: &str) -> Option<(String, Manifest)> {
        let repository = self.repositories.get(name)?;
        let digest = repository.digest_of_reference(reference)?;
        let manifest = repository.manifests.get(&digest)?.clone();
        Some((digest, manifest))
    }

    /// Begins an upload, and returns its number.
    pub(super) fn begin_upload(&mut self) -> usize {
        self.last_upload += 1;
        self.uploads.insert(self.last_upload, Vec::new());
        self.last_upload
    }
}
