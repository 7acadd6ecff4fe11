// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is kept of the signatures of an image beside the image, so that they can be checked
//! again without the registry, and when the keys that are accepted have changed.
//!
//! Nothing in it is believed. From a key to an image leads a chain of which each link is
//! computed: the key accepts a signature of a text; the text names the sha256 of a manifest;
//! the manifest, which is kept too, names the sha256 of the image. Only where the image came
//! from, and of which size and time it was then, is what someone has written down.
//!
//! ```text
//! {"version":1, "size":…, "modified":[seconds, nanoseconds],
//!  "images":[{"namespace":"deploy", "repository":"…", "manifest":"<base64>",
//!             "signatures":[{"text":"<base64>", "signature":"<base64>"}]}]}
//! ```

use cabane_label::{Digest, Namespace};
use serde::{Deserialize, Serialize};

use super::key::PublicKey;
use super::verdict::{Base64, Distrust, Signature, Signatures, first_accepted};
use crate::document::{Manifest, OciDigest, to_bytes};
use crate::image::image_layer;
use crate::{Error, Registry, RemoteImage};

/// The largest record that is read.
pub const MAX_RECORD: u64 = 1024 * 1024;
/// An image is in few places; with more, the oldest is lost.
const MOST_IMAGES: usize = 16;
const VERSION: u32 = 1;

/// The signatures of one image, wherever it was pulled from or pushed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureRecord {
    version: u32,
    /// The size of the image, and when it was changed last, as the file system reported.
    size: u64,
    modified: (i64, i64),
    images: Vec<SignedImage>,
}

/// The signatures that a registry had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SignedImage {
    namespace: Namespace,
    repository: String,
    manifest: Base64,
    signatures: Vec<Signature>,
}

impl Registry {
    /// Returns what is to be kept of an image and its signatures.
    #[must_use]
    pub fn record(&self, image: &RemoteImage, signatures: &Signatures) -> SignatureRecord {
        let host = self.address().host();
        SignatureRecord {
            version: VERSION,
            size: image.size,
            modified: (0, 0),
            images: vec![SignedImage {
                namespace: image.place.namespace.clone(),
                repository: format!("{host}/{}", image.repository),
                manifest: Base64(image.document.clone()),
                signatures: signatures.found.iter().flatten().cloned().collect(),
            }],
        }
    }

    /// Gets the signatures of an image, and returns what is to be kept of them.
    ///
    /// # Errors
    ///
    /// That the registry does not tell.
    pub fn fetch_record(&self, image: &RemoteImage) -> Result<SignatureRecord, Error> {
        Ok(self.record(image, &self.signatures(image)?))
    }
}

impl SignatureRecord {
    /// Reads a record; `None` for what is none, or of a later version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(bytes).ok()?;
        (record.version == VERSION).then_some(record)
    }

    /// Writes the record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Adds what another record says of the same image.
    #[must_use]
    pub fn joined_to(mut self, before: Self) -> Self {
        let is_newer = |old: &SignedImage| {
            let same = |new: &SignedImage| {
                new.repository == old.repository && new.manifest == old.manifest
            };
            !self.images.iter().any(same)
        };
        let kept: Vec<_> = before.images.into_iter().filter(is_newer).collect();
        self.images.extend(kept);
        self.images.truncate(MOST_IMAGES);
        self
    }

    /// Notes when the file of the image was changed last, in seconds and nanoseconds.
    #[must_use]
    pub fn with_file(mut self, size: u64, modified: (i64, i64)) -> Self {
        (self.size, self.modified) = (size, modified);
        self
    }

    /// Returns whether the file of the image is as it was.
    #[must_use]
    pub fn is_of_file(&self, size: u64, modified: (i64, i64)) -> bool {
        (self.size, self.modified) == (size, modified)
    }

    /// Returns the parts of registries from which the image may have come. No one has
    /// signed that.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.images.iter().map(|image| &image.namespace)
    }

    /// Returns the key with which the image of this digest was signed.
    ///
    /// # Errors
    ///
    /// Why none of the keys accepts it.
    pub fn accepted_by<'k>(
        &self,
        digest: &Digest,
        keys: &'k [PublicKey],
    ) -> Result<&'k PublicKey, Distrust> {
        first_accepted(self.images.iter().map(|image| image.accepted_by(digest, keys)))
    }
}

impl SignedImage {
    fn accepted_by<'k>(
        &self,
        digest: &Digest,
        keys: &'k [PublicKey],
    ) -> Result<&'k PublicKey, Distrust> {
        let found = self.signatures.iter().cloned().map(Ok).collect();
        let signatures = Signatures { manifest: OciDigest::of(&self.manifest.0), found };
        let key = signatures.accepted_by(keys)?;
        let manifest: Option<Manifest> = serde_json::from_slice(&self.manifest.0).ok();
        let layer = manifest.as_ref().and_then(image_layer);
        if layer.is_some_and(|layer| layer.digest.0 == *digest) {
            Ok(key)
        } else {
            Err(Distrust::OtherImage)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::SigningKey;
    use super::super::payload;
    use super::*;
    use crate::document::{Descriptor, TITLE};
    use crate::image::{SQUASHFS, dated};

    fn key() -> SigningKey {
        let directory = tempfile::tempdir().unwrap();
        SigningKey::generate(&directory.path().join("key")).unwrap().0
    }

    fn digest(content: &[u8]) -> Digest {
        OciDigest::of(content).0
    }

    fn manifest(content: &[u8]) -> Vec<u8> {
        let layer = Descriptor::of(SQUASHFS, content).with(TITLE, "store.squashfs");
        let dated = dated("2026-11-01T00:00:00Z".parse().unwrap());
        to_bytes(&Manifest::artifact(SQUASHFS, vec![layer], dated))
    }

    /// The record of an image of this content, with a signature for the manifest of another.
    fn record(content: &[u8], signed: &[u8], key: &SigningKey) -> SignatureRecord {
        let manifest_of_it = OciDigest::of(&manifest(signed));
        let text = payload::write("registry.example/app", &manifest_of_it, None);
        let signature = key.sign(&text).unwrap();
        SignatureRecord {
            version: VERSION,
            size: 3,
            modified: (5, 7),
            images: vec![SignedImage {
                namespace: "deploy".parse().unwrap(),
                repository: "registry.example/app".to_owned(),
                manifest: Base64(manifest(content)),
                signatures: vec![Signature { text: Base64(text), signature: Base64(signature) }],
            }],
        }
    }

    fn judged(record: &SignatureRecord, content: &[u8], key: &SigningKey) -> Result<(), Distrust> {
        let keys = [key.public()];
        record.accepted_by(&digest(content), &keys).map(|_| ())
    }

    #[test]
    fn what_is_written_is_accepted_when_it_is_read_again() {
        let key = key();
        let bytes = record(b"abc", b"abc", &key).to_bytes();
        let read = SignatureRecord::from_bytes(&bytes).unwrap();
        assert_eq!(judged(&read, b"abc", &key), Ok(()));
    }

    #[test]
    fn the_record_of_another_image_is_of_no_use() {
        let key = key();
        let record = record(b"abc", b"abc", &key);
        assert_eq!(judged(&record, b"abd", &key), Err(Distrust::OtherImage));
    }

    #[test]
    fn a_manifest_that_was_not_signed_leads_to_no_image() {
        let key = key();
        let record = record(b"forged", b"abc", &key);
        assert_eq!(judged(&record, b"forged", &key), Err(Distrust::OtherImage));
    }

    #[test]
    fn a_key_that_is_not_accepted_any_more_counts_for_nothing() {
        let record = record(b"abc", b"abc", &key());
        assert_eq!(judged(&record, b"abc", &key()), Err(Distrust::UnknownKey));
    }

    #[test]
    fn signatures_of_several_registries_are_kept_side_by_side() {
        let (ours, theirs) = (key(), key());
        let mut elsewhere = record(b"abc", b"abc", &theirs);
        elsewhere.images[0].repository = "elsewhere.example/app".to_owned();
        let both = record(b"abc", b"abc", &ours).joined_to(elsewhere);
        assert_eq!(judged(&both, b"abc", &ours), Ok(()));
        assert_eq!(judged(&both, b"abc", &theirs), Ok(()));
    }

    #[test]
    fn what_a_registry_has_now_takes_the_place_of_what_it_had() {
        let (old, new) = (key(), key());
        let joined = record(b"abc", b"abc", &new).joined_to(record(b"abc", b"abc", &old));
        assert_eq!(judged(&joined, b"abc", &old), Err(Distrust::UnknownKey));
    }

    #[test]
    fn records_that_are_damaged_or_of_later_versions_are_none() {
        let bytes = record(b"abc", b"abc", &key()).to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(SignatureRecord::from_bytes(&bytes[..length]), None);
        }
        let text = String::from_utf8(bytes).unwrap();
        let later = text.replace(r#""version":1"#, r#""version":2"#);
        assert_eq!(SignatureRecord::from_bytes(later.as_bytes()), None);
    }
}
