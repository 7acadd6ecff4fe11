// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures in a registry: a manifest under the tag `sha256-<digest>.sig`, with a layer for
//! each signature. The layer is what was signed; the signature is an annotation of it. Cosign 3 attaches
//! a bundle instead; such signatures are read and never written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::envelope::Envelope;
use super::key::SigningKey;
use super::payload::{self, SIGN, Statement};
use super::verdict::{Base64, Signature, Signatures};
use crate::document::{Annotations, Descriptor, MANIFEST, Manifest, OciDigest, to_bytes};
use crate::parallel::each_by_itself;
use crate::{Listed, Place, Registry, RemoteImage, Result};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// What is signed has some hundred bytes.
const MAX_TEXT: u64 = 64 * 1024;
/// Anyone who may write can add as many as they like; no more are looked at.
const MAX_SIGNATURES: usize = 256;
/// How often another signer may be in the way.
const ATTEMPTS: usize = 8;

impl Registry {
    /// Signs an image under its label; returns whether there was no such signature of this key
    /// before. With `renew` there is another one in any case, with the present time.
    ///
    /// Signatures of others stay.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn sign(&self, image: &RemoteImage, key: &SigningKey, renew: bool) -> Result<bool> {
        let manifest = OciDigest(image.manifest.clone());
        self.sign_manifest(&image.place, &manifest, key, renew)
    }

    pub(crate) fn sign_manifest(
        &self,
        place: &Place,
        manifest: &OciDigest,
        key: &SigningKey,
        renew: bool,
    ) -> Result<bool> {
        let repository = &self.repository(place)?;
        let known = self.signatures_of(repository, manifest)?.statements(&[key.public()]);
        if !renew && known.iter().any(|known| known.place == *place) {
            return Ok(false);
        }
        let reference = format!("{}/{repository}", self.address().host());
        let statement = Statement { place: place.clone(), time: Timestamp::now() };
        let text = payload::write(&reference, manifest, Some(&statement));
        let signature = STANDARD.encode(key.sign(&text)?);
        self.put_small_blob(repository, &text)?;
        let layer = Descriptor::of(SIMPLE_SIGNING, &text).with(SIGNATURE, signature);
        self.add_layers(repository, manifest, &[layer])?;
        Ok(true)
    }

    /// Gets the signatures of an image. Whose they are is not yet known.
    ///
    /// # Errors
    ///
    /// That the registry does not tell.
    pub fn signatures(&self, image: &RemoteImage) -> Result<Signatures> {
        self.signatures_of(&image.repository, &OciDigest(image.manifest.clone()))
    }

    /// Gets the signatures of images of a list, several at once and in their order.
    ///
    /// # Errors
    ///
    /// That the registry cannot be reached; an image that is gone is an error of its own.
    pub fn signatures_of_listed(&self, images: &[Listed]) -> Result<Vec<Result<Signatures>>> {
        each_by_itself(images, |image| self.signatures(&self.image(&image.place())?))
    }

    fn signatures_of(&self, repository: &str, manifest: &OciDigest) -> Result<Signatures> {
        let document = self.signature_manifest(repository, manifest)?;
        let layers = document.map(|document| document.layers).unwrap_or_default();
        let layers = layers.into_iter().filter(|layer| layer.media_type == SIMPLE_SIGNING);
        // Those of one image are mostly signatures of the same text. A wrong size is no one
        // else's.
        let mut texts = BTreeMap::new();
        let mut found = Vec::new();
        for layer in layers.take(MAX_SIGNATURES) {
            let text = match texts.entry((layer.digest.clone(), layer.size)) {
                Entry::Occupied(known) => known.into_mut(),
                // One bad signature does not spoil the others.
                Entry::Vacant(place) => {
                    place.insert(self.blob_if_good(repository, &layer, MAX_TEXT)?)
                }
            };
            found.push(read_signature(&layer, text.clone()));
        }
        for bundle in self.bundles(repository, manifest, (SIGN, MAX_TEXT))? {
            let bundle: Option<Bundle> = serde_json::from_slice(&bundle).ok();
            let signatures = bundle.into_iter().flat_map(|one| one.dsse_envelope.into_signatures());
            found.extend(signatures.take(MAX_SIGNATURES.saturating_sub(found.len())).map(Ok));
        }
        Ok(Signatures { manifest: manifest.clone(), found })
    }

    fn signature_manifest(
        &self,
        repository: &str,
        manifest: &OciDigest,
    ) -> Result<Option<Manifest>> {
        self.parsed_document("signatures", repository, &signatures_tag(manifest))
    }

    /// Adds signatures whose texts the repository has.
    pub(crate) fn add_layers(
        &self,
        repository: &str,
        manifest: &OciDigest,
        layers: &[Descriptor],
    ) -> Result<()> {
        let tag = signatures_tag(manifest);
        // Registries have no condition for writing: of two who sign at the same instant one may
        // overwrite the other. Who does not find its own there afterwards writes it again,
        // which leaves the time between someone's reading and writing.
        for _ in 0..ATTEMPTS {
            let known = self.signature_manifest(repository, manifest)?;
            let mut document = known.unwrap_or_else(no_signatures);
            let missing: Vec<_> =
                layers.iter().filter(|layer| !document.layers.contains(layer)).cloned().collect();
            if missing.is_empty() {
                return Ok(());
            }
            document.layers.extend(missing);
            let config = config_of(&document.layers);
            self.put_small_blob(repository, &config)?;
            document.config = Descriptor::of(CONFIG, &config);
            self.put_document(repository, &tag, MANIFEST, &to_bytes(&document))?;
        }
        Err(self.client.odd("a signature that was added is gone again and again"))
    }

    /// Takes the signatures of a manifest along to another repository, beside those there.
    pub(crate) fn copy_signatures(
        &self,
        source: &str,
        target: &str,
        manifest: &OciDigest,
    ) -> Result<()> {
        let Some(document) = self.signature_manifest(source, manifest)? else {
            return Ok(());
        };
        for layer in &document.layers {
            self.give_blob(source, target, &layer.digest)?;
        }
        self.add_layers(target, manifest, &document.layers)
    }
}

/// A bundle of Sigstore, as far as signatures need it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Envelope,
}

/// The tag under which cosign puts the signatures of a manifest.
pub(crate) fn signatures_tag(manifest: &OciDigest) -> String {
    format!("sha256-{}.sig", manifest.0)
}

fn read_signature(layer: &Descriptor, text: Option<Vec<u8>>) -> Result<Signature, &'static str> {
    let text = text.ok_or("the registry does not have what was signed")?;
    let signature = layer.annotations.get(SIGNATURE).ok_or("it is missing")?;
    let signature = STANDARD.decode(signature).map_err(|_| "it is not base64")?;
    Ok(Signature { text: Base64(text), signature: Base64(signature) })
}

fn no_signatures() -> Manifest {
    Manifest { artifact_type: None, ..Manifest::artifact(CONFIG, Vec::new(), Annotations::new()) }
}

/// Returns the configuration of an image with these layers: cosign takes signatures for one,
/// and reads it when it adds another.
fn config_of(layers: &[Descriptor]) -> Vec<u8> {
    let digests: Vec<_> = layers.iter().map(|layer| layer.digest.to_string()).collect();
    to_bytes(&json!({
        "architecture": "",
        "config": {},
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": digests },
    }))
}
