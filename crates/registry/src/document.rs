// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The documents of the OCI image specification, version 1.1, as far as images need them.
//!
//! A digest is that of the bytes that were sent, never of what is written again from here.

use std::collections::BTreeMap;

use cabane_label::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sum;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Documents of other tools that say the same.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";
/// The content that stands for none.
pub(crate) const EMPTY: &[u8] = b"{}";

/// The name of a file, by which `oras` saves a layer.
pub(crate) const TITLE: &str = "org.opencontainers.image.title";
/// When a document was made, as RFC 3339 has it.
pub(crate) const CREATED: &str = "org.opencontainers.image.created";

pub(crate) type Annotations = BTreeMap<String, String>;

/// A digest as registries write it: `sha256:` and 64 digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OciDigest(pub(crate) Digest);

impl OciDigest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(sum::bytes(bytes))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.strip_prefix("sha256:")?.parse().ok().map(Self)
    }
}

impl std::fmt::Display for OciDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl Serialize for OciDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OciDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("a digest that is not `sha256:` and 64 digits"))
    }
}

/// Points to content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: OciDigest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    /// The content itself in base64, so that no one has to ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

impl Descriptor {
    pub(crate) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self::new(media_type, OciDigest::of(bytes), bytes.len() as u64)
    }

    pub(crate) fn new(media_type: &str, digest: OciDigest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            artifact_type: None,
            data: None,
            annotations: Annotations::new(),
        }
    }

    pub(crate) fn empty_config() -> Self {
        Self::of(EMPTY_CONFIG, EMPTY)
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(name.to_owned(), value.into());
        self
    }
}

/// What an image, or what is attached to one, is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

impl Manifest {
    /// Makes a manifest without a configuration, as artifacts have none.
    pub(crate) fn artifact(kind: &str, layers: Vec<Descriptor>, annotations: Annotations) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: Some(kind.to_owned()),
            config: Descriptor::empty_config(),
            layers,
            subject: None,
            annotations,
        }
    }

    /// Whether it says that it refers to another manifest. An index can say so of any manifest.
    pub(crate) fn is_attached_to(&self, subject: &OciDigest) -> bool {
        self.subject.as_ref().is_some_and(|one| one.digest == *subject)
    }

    /// Returns what kind of artifact this is; older tools say it by the configuration.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.artifact_type.as_deref();
        kind.unwrap_or(&self.config.media_type)
    }
}

/// A list of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default)]
    pub(crate) manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            schema_version: 2,
            media_type: Some(INDEX.to_owned()),
            manifests: Vec::new(),
            annotations: Annotations::new(),
        }
    }
}

/// Writes a document; the same one gives the same bytes.
pub(crate) fn to_bytes(document: &impl Serialize) -> Vec<u8> {
    // Strings, numbers, lists and maps of them are always JSON.
    serde_json::to_vec(document).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_written_as_the_specification_shows_it() {
        let layer = Descriptor::of("application/x-squashfs", b"abc").with(TITLE, "store.squashfs");
        let manifest =
            Manifest::artifact("application/x-squashfs", vec![layer], Annotations::new());
        let text = String::from_utf8(to_bytes(&manifest)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","#,
                r#""artifactType":"application/x-squashfs","#,
                r#""config":{"mediaType":"application/vnd.oci.empty.v1+json","#,
                r#""digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
                r#""size":2},"layers":[{"mediaType":"application/x-squashfs","#,
                r#""digest":"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
                r#""size":3,"annotations":{"org.opencontainers.image.title":"store.squashfs"}}]}"#
            )
        );
    }

    #[test]
    fn a_digest_of_another_kind_is_refused() {
        assert_eq!(OciDigest::parse(&format!("sha512:{}", "a".repeat(128))), None);
    }
}
