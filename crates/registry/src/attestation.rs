// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signed statements about an image, attached to its manifest.
//!
//! Each is a manifest of its own that refers to the image, with one layer: a bundle of Sigstore,
//! version 0.3, as cosign 3 writes and finds it. Nothing here checks a signature.
//!
//! A registry without the request for referrers has an index of them, which each writer reads, completes,
//! and writes. Of two writers at once one may lose its line there. Therefore the manifest also has a tag
//! of its own, `sha256-<digest of the image's manifest>.<32 digits of its own digest>`, and readers look
//! at both.

use std::collections::BTreeMap;

use cabane_label::Digest;
use jiff::Timestamp;

use crate::document::{
    CREATED, Descriptor, EMPTY, INDEX, Index, MANIFEST, Manifest, OciDigest, to_bytes,
};
use crate::image::dated;
use crate::parallel::side_by_side;
use crate::registry::referrers_tag;
use crate::{Registry, RemoteImage, Result};

/// The kind of the manifest and of its layer.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const CONTENT: &str = "dev.sigstore.bundle.content";
const PREDICATE_TYPE: &str = "dev.sigstore.bundle.predicateType";
/// The largest bundle that is read or written, in bytes: 512 KiB, a run of some hundred checks.
pub const MAX_BUNDLE: u64 = 512 * 1024;
/// The most that are read of one image: anyone who may write can attach as many as they like.
const MOST: usize = 256;
/// How many digits of a digest are in a tag.
const DIGITS: usize = 32;
/// How often others may overwrite the index at the same time.
const INDEX_ATTEMPTS: usize = 4;

/// A statement that is attached to an image, as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// The sha256 of the manifest that holds it.
    pub manifest: Digest,
    /// What kind of statement it says that it is.
    pub predicate_type: Option<String>,
    /// When it says that it was made.
    pub created: Option<Timestamp>,
    /// The bundle.
    pub bundle: Vec<u8>,
}

/// The statements that are attached to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestations {
    /// The statements, the newest first by what they say.
    pub attestations: Vec<Attestation>,
    /// Whether these are all. Of too many, others were not read.
    pub is_complete: bool,
}

impl Registry {
    /// Attaches a bundle to an image, and returns the digest of the manifest that holds it. The same
    /// bundle is attached once.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn attest(
        &self,
        image: &RemoteImage,
        predicate_type: &str,
        created: Timestamp,
        bundle: &[u8],
    ) -> Result<Digest> {
        let mut manifest =
            Manifest::artifact(BUNDLE, vec![Descriptor::of(BUNDLE, bundle)], dated(created));
        manifest.annotations.insert(CONTENT.to_owned(), "dsse-envelope".to_owned());
        manifest.annotations.insert(PREDICATE_TYPE.to_owned(), predicate_type.to_owned());
        self.attach_content(image, manifest, bundle)
    }

    /// Attaches a manifest with one small blob to an image, unless it is there already.
    pub(crate) fn attach_content(
        &self,
        image: &RemoteImage,
        mut manifest: Manifest,
        content: &[u8],
    ) -> Result<Digest> {
        let subject = OciDigest(image.manifest.clone());
        let mut of_image = Descriptor::of(MANIFEST, &image.document);
        of_image.artifact_type = Some(image.media_type.clone());
        manifest.subject = Some(of_image);
        let bytes = to_bytes(&manifest);
        let mut referrer = Descriptor::of(MANIFEST, &bytes);
        referrer.artifact_type = manifest.artifact_type;
        referrer.annotations = manifest.annotations;
        let tag = tag_of(&subject, &referrer.digest);
        if self.digest_of(&image.repository, &tag)?.as_ref() != Some(&referrer.digest) {
            self.put_small_blob(&image.repository, EMPTY)?;
            self.put_small_blob(&image.repository, content)?;
            self.put_attestation(&image.repository, &subject, &referrer, &bytes)?;
        }
        Ok(referrer.digest.0)
    }

    /// Puts the manifest of a statement under its tag, where it cannot be lost, and among the referrers.
    pub(crate) fn put_attestation(
        &self,
        repository: &str,
        subject: &OciDigest,
        referrer: &Descriptor,
        bytes: &[u8],
    ) -> Result<()> {
        let tag = tag_of(subject, &referrer.digest);
        if self.put_document(repository, &tag, MANIFEST, bytes)? {
            return Ok(());
        }
        // Each writer adds what others lost, so that the last one leaves a complete index. What is
        // missing in between is found by its tag.
        for _ in 0..INDEX_ATTEMPTS {
            let index = self.referrers_by_tag(repository, subject)?.unwrap_or_default();
            if index.manifests.iter().any(|known| known.digest == referrer.digest) {
                break;
            }
            let manifests = self.attached(repository, subject)?;
            let tag = referrers_tag(subject);
            self.put_document(repository, &tag, INDEX, &to_bytes(&Index { manifests, ..index }))?;
        }
        Ok(())
    }

    /// Lists everything that refers to a manifest, also statements that are missing in the index.
    pub(crate) fn attached(
        &self,
        repository: &str,
        subject: &OciDigest,
    ) -> Result<Vec<Descriptor>> {
        let mut attached = self.all_referrers(repository, subject)?;
        let known: Vec<String> = attached.iter().map(|one| tag_of(subject, &one.digest)).collect();
        let begin = format!("{}.", referrers_tag(subject));
        let is_missing = |tag: &String| {
            let digits = tag.strip_prefix(&begin);
            digits.is_some_and(|digits| digits.len() == DIGITS) && !known.contains(tag)
        };
        for tag in self.tags(repository)?.into_iter().filter(is_missing).take(MOST + 1) {
            let Some(document) = self.document(repository, &tag)? else {
                continue;
            };
            let Ok(manifest) = serde_json::from_slice::<Manifest>(&document.bytes) else {
                continue;
            };
            // Anyone can give such a tag to another manifest.
            if tag != tag_of(subject, &document.digest) || !manifest.is_attached_to(subject) {
                continue;
            }
            let mut referrer = Descriptor::of(MANIFEST, &document.bytes);
            referrer.artifact_type = Some(manifest.kind().to_owned());
            referrer.annotations = manifest.annotations;
            attached.push(referrer);
        }
        Ok(attached)
    }

    /// Returns the statements that are attached to an image, the newest first. Damaged ones are left out.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn attestations(&self, image: &RemoteImage) -> Result<Attestations> {
        let subject = OciDigest(image.manifest.clone());
        let attached = self.attached(&image.repository, &subject)?;
        let limits = (None, MAX_BUNDLE);
        let (attestations, is_complete) =
            self.read_bundles(&image.repository, &subject, attached, limits)?;
        Ok(Attestations { attestations, is_complete })
    }

    /// Returns the bundles of one type, and of so many bytes at most, among the referrers of a manifest.
    pub(crate) fn bundles(
        &self,
        repository: &str,
        subject: &OciDigest,
        (predicate_type, limit): (&str, u64),
    ) -> Result<Vec<Vec<u8>>> {
        let attached = self.all_referrers(repository, subject)?;
        let limits = (Some(predicate_type), limit);
        let (read, _) = self.read_bundles(repository, subject, attached, limits)?;
        let is_it = |one: &Attestation| one.predicate_type.as_deref() == Some(predicate_type);
        Ok(read.into_iter().filter(is_it).map(|one| one.bundle).collect())
    }

    fn read_bundles(
        &self,
        repository: &str,
        subject: &OciDigest,
        mut attached: Vec<Descriptor>,
        (predicate_type, limit): (Option<&str>, u64),
    ) -> Result<(Vec<Attestation>, bool)> {
        attached.retain(|one| {
            // An index may lack it.
            let kind = one.annotations.get(PREDICATE_TYPE);
            let is_wanted =
                predicate_type.is_none_or(|wanted| kind.is_none_or(|kind| kind == wanted));
            one.artifact_type.as_deref() == Some(BUNDLE) && is_wanted
        });
        newest_first(&mut attached);
        attached.dedup_by(|one, other| one.digest == other.digest);
        let newest = attached.get(..MOST).unwrap_or(&attached);
        let read =
            side_by_side(newest, |one| self.read_attestation(repository, subject, one, limit))?;
        Ok((read.into_iter().flatten().collect(), newest.len() == attached.len()))
    }

    fn read_attestation(
        &self,
        repository: &str,
        subject: &OciDigest,
        referrer: &Descriptor,
        limit: u64,
    ) -> Result<Option<Attestation>> {
        let document = self.document(repository, &referrer.digest.to_string())?;
        let document = document.filter(|found| found.digest == referrer.digest);
        let manifest = document
            .and_then(|document| serde_json::from_slice::<Manifest>(&document.bytes).ok())
            .filter(|manifest| manifest.is_attached_to(subject));
        let Some((manifest, layer)) = manifest.and_then(|manifest| {
            let layer = manifest.layers.first()?.clone();
            (layer.media_type == BUNDLE).then_some((manifest, layer))
        }) else {
            return Ok(None);
        };
        if layer.size > limit {
            return Ok(None);
        }
        let Some(bundle) = self.blob_if_good(repository, &layer, limit)? else {
            return Ok(None);
        };
        Ok(Some(Attestation {
            manifest: referrer.digest.0.clone(),
            predicate_type: manifest.annotations.get(PREDICATE_TYPE).cloned(),
            created: created(&manifest.annotations),
            bundle,
        }))
    }

    /// Removes a statement from an image.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::NoDeletion`], and those of writing.
    pub fn remove_attestation(&self, image: &RemoteImage, manifest: &Digest) -> Result<()> {
        let digest = OciDigest(manifest.clone());
        let subject = OciDigest(image.manifest.clone());
        self.delete_by_digest(&image.repository, &digest)?;
        let Some(mut index) = self.referrers_by_tag(&image.repository, &subject)? else {
            return Ok(());
        };
        index.manifests.retain(|one| one.digest != digest);
        let tag = referrers_tag(&subject);
        self.put_document(&image.repository, &tag, INDEX, &to_bytes(&index))?;
        Ok(())
    }
}

/// The tag of a statement about a manifest.
fn tag_of(subject: &OciDigest, own: &OciDigest) -> String {
    let digits = own.0.as_str().get(..DIGITS).unwrap_or_default();
    format!("{}.{digits}", referrers_tag(subject))
}

/// Sorts by time and digest. Those without a time are the oldest.
pub(crate) fn newest_first(attached: &mut [Descriptor]) {
    attached.sort_by_cached_key(|one| {
        let created = created(&one.annotations).unwrap_or(Timestamp::MIN);
        (std::cmp::Reverse(created), one.digest.clone())
    });
}

pub(crate) fn created(annotations: &BTreeMap<String, String>) -> Option<Timestamp> {
    annotations.get(CREATED)?.parse().ok()
}
