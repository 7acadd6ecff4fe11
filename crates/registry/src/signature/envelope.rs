// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signed documents: DSSE envelopes, version 1.
//!
//! What is signed is the type of the document and its bytes, so that one kind cannot be taken for
//! another. The format is that of <https://github.com/secure-systems-lab/dsse>.

use serde::{Deserialize, Serialize};

use super::key::{PublicKey, SigningKey};
use super::verdict::{Base64, Distrust, Signature, first_accepted};
use crate::Result;
use crate::document::to_bytes;

/// Anyone who may write can add as many as they like; no more are looked at.
const MAX_SIGNATURES: usize = 64;
/// So many are kept when another one is added.
const MAX_KEPT: usize = 16;

/// A document, and who signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    #[serde(rename = "payloadType")]
    kind: String,
    payload: Base64,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EnvelopeSignature {
    /// A hint, which is empty here: all keys are tried, and cosign skips hints that it does not know.
    #[serde(default, rename = "keyid")]
    key: String,
    #[serde(rename = "sig")]
    signature: Base64,
}

impl Envelope {
    /// Signs a document of a type.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn sign(kind: &str, payload: &[u8], key: &SigningKey) -> Result<Self> {
        let signature = key.sign(&signed_bytes(kind, payload))?;
        Ok(Self {
            kind: kind.to_owned(),
            payload: Base64(payload.to_owned()),
            signatures: vec![EnvelopeSignature {
                key: String::new(),
                signature: Base64(signature),
            }],
        })
    }

    /// Adds the signatures that another envelope has of the same document, up to a limit. Those that are
    /// here stay the first.
    #[must_use]
    pub fn with_signatures_of(mut self, other: Self) -> Self {
        if (&self.kind, &self.payload) == (&other.kind, &other.payload) {
            let free = MAX_KEPT.saturating_sub(self.signatures.len());
            self.signatures.extend(other.signatures.into_iter().take(free));
        }
        self
    }

    /// Reads an envelope; `None` if it is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the envelope as it is stored.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Returns the type of the document, whoever signed it.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the document, whoever signed it.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload.0
    }

    /// Returns what was signed, once for each signature.
    pub(super) fn into_signatures(self) -> impl Iterator<Item = Signature> {
        let text = signed_bytes(&self.kind, &self.payload.0);
        let signatures = self.signatures.into_iter().take(MAX_SIGNATURES);
        signatures
            .map(move |one| Signature { text: Base64(text.clone()), signature: one.signature })
    }

    /// Returns the document and the key with which it was signed.
    ///
    /// # Errors
    ///
    /// That it was signed with none of the keys, or is a document of another type.
    pub fn open<'k>(
        &self,
        kind: &str,
        keys: &'k [PublicKey],
    ) -> Result<(&[u8], &'k PublicKey), Distrust> {
        if self.kind != kind {
            return Err(Distrust::Damaged { reason: "it is a document of another type" });
        }
        let bytes = signed_bytes(&self.kind, &self.payload.0);
        let signatures = self.signatures.iter().take(MAX_SIGNATURES);
        let signer = first_accepted(signatures.map(|one| {
            let signer = keys.iter().find(|key| key.accepts(&bytes, &one.signature.0));
            signer.ok_or(Distrust::UnknownKey)
        }))?;
        Ok((&self.payload.0, signer))
    }
}

/// Reads what was signed as a document of a type; `None` if it is none.
pub(super) fn document_in<'t>(kind: &str, text: &'t [u8]) -> Option<&'t [u8]> {
    let rest = text.strip_prefix(format!("DSSEv1 {} {kind} ", kind.len()).as_bytes())?;
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let (length, document) = (rest.get(..blank)?, rest.get(blank + 1..)?);
    (length == document.len().to_string().as_bytes()).then_some(document)
}

/// What is signed: `DSSEv1`, and length and bytes of the type and of the document, separated by blanks.
fn signed_bytes(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "application/vnd.example+json";

    fn key() -> SigningKey {
        let directory = tempfile::tempdir().unwrap();
        SigningKey::generate(&directory.path().join("key")).unwrap().0
    }

    #[test]
    fn what_is_signed_is_that_of_the_specification() {
        // The example of the specification.
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn an_envelope_is_opened_with_the_key_that_signed_it() {
        let (ours, theirs) = (key(), key());
        let envelope = Envelope::sign(KIND, b"{}", &ours).unwrap();
        let envelope = Envelope::from_bytes(&envelope.to_bytes()).unwrap();
        let keys = [theirs.public(), ours.public()];
        assert_eq!(envelope.open(KIND, &keys), Ok((&b"{}"[..], &keys[1])));
        assert_eq!(envelope.open(KIND, &keys[..1]), Err(Distrust::UnknownKey));
        assert!(envelope.open("text/plain", &keys).is_err());
        let unsigned = Envelope { signatures: Vec::new(), ..envelope };
        assert_eq!(unsigned.open(KIND, &keys), Err(Distrust::Unsigned));
    }

    #[test]
    fn signatures_of_the_same_document_are_kept_and_no_others() {
        let (ours, theirs) = (key(), key());
        let [one, other] = [&ours, &theirs].map(|key| Envelope::sign(KIND, b"{}", key).unwrap());
        let both = one.clone().with_signatures_of(other);
        for key in [&ours, &theirs] {
            assert_eq!(both.open(KIND, &[key.public()]).unwrap().0, b"{}");
        }
        let foreign = Envelope::sign(KIND, b"[]", &theirs).unwrap();
        assert_eq!(one.clone().with_signatures_of(foreign), one);
        // What a stranger has added does not hide the new one.
        let mut many = both.clone();
        many.signatures = vec![both.signatures[1].clone(); 100];
        let signed = one.with_signatures_of(many);
        assert!(signed.signatures.len() == MAX_KEPT && signed.open(KIND, &[ours.public()]).is_ok());
    }

    #[test]
    fn neither_document_nor_type_can_be_changed() {
        let ours = key();
        let keys = [ours.public()];
        let envelope = Envelope::sign(KIND, b"{\"serial\":1}", &ours).unwrap();
        let mut changed = envelope.clone();
        changed.payload.0[11] ^= 1;
        assert_eq!(changed.open(KIND, &keys), Err(Distrust::UnknownKey));
        let other = Envelope { kind: "text/plain".to_owned(), ..envelope };
        assert_eq!(other.open("text/plain", &keys), Err(Distrust::UnknownKey));
    }
}
