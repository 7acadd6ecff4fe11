// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the signatures of an image are accepted by the configured keys, and why not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::key::PublicKey;
use super::payload::{self, Statement};
use crate::document::OciDigest;

/// Why an image is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It has no signature at all.
    #[error("it is not signed")]
    Unsigned,
    /// None of its signatures was made with one of the keys.
    #[error("it is signed with a key that is not accepted here")]
    UnknownKey,
    /// A good signature lies with it, but was made for another image.
    #[error("its signature is that of another image")]
    OtherImage,
    /// What is there is no signature.
    #[error("its signature is damaged: {reason}")]
    Damaged {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Distrust {
    /// The one that tells most comes last.
    fn weight(&self) -> u8 {
        match self {
            Self::Unsigned => 0,
            Self::Damaged { .. } => 1,
            Self::UnknownKey => 2,
            Self::OtherImage => 3,
        }
    }
}

/// Returns the first key that accepts something, or the reason against it that tells most.
pub(super) fn first_accepted<'k>(
    verdicts: impl Iterator<Item = Result<&'k PublicKey, Distrust>>,
) -> Result<&'k PublicKey, Distrust> {
    let mut worst = Distrust::Unsigned;
    for verdict in verdicts {
        match verdict {
            Err(other) if worst.weight() < other.weight() => worst = other,
            Err(_) => {}
            accepted => return accepted,
        }
    }
    Err(worst)
}

/// Bytes that are written as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Base64(pub(super) Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        STANDARD.encode(bytes.0)
    }
}

/// A signature, and the text that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Signature {
    pub(super) text: Base64,
    pub(super) signature: Base64,
}

/// What the registry has as signatures of an image.
#[derive(Clone, Debug)]
pub struct Signatures {
    pub(super) manifest: OciDigest,
    pub(super) found: Vec<Result<Signature, &'static str>>,
}

impl Signatures {
    /// Returns how many there are, no matter who made them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// Returns the key with which one of them was made.
    ///
    /// # Errors
    ///
    /// Why none of the keys accepts the image.
    pub fn accepted_by<'k>(&self, keys: &'k [PublicKey]) -> Result<&'k PublicKey, Distrust> {
        first_accepted(self.found.iter().map(|found| self.judge(found, keys)))
    }

    /// Returns what those signatures say that one of the keys has made: under which label, and when.
    /// Those of cosign say nothing.
    pub fn statements(&self, keys: &[PublicKey]) -> Vec<Statement> {
        let read = |found| self.read(found, keys).ok();
        self.found.iter().filter_map(read).filter_map(|(_, statement)| statement).collect()
    }

    fn judge<'k>(
        &self,
        found: &Result<Signature, &'static str>,
        keys: &'k [PublicKey],
    ) -> Result<&'k PublicKey, Distrust> {
        self.read(found, keys).map(|(signer, _)| signer)
    }

    /// What is in the text counts only when someone we know has signed it.
    fn read<'k>(
        &self,
        found: &Result<Signature, &'static str>,
        keys: &'k [PublicKey],
    ) -> Result<(&'k PublicKey, Option<Statement>), Distrust> {
        let damaged = |reason| Distrust::Damaged { reason };
        let found = found.as_ref().map_err(|reason| damaged(*reason))?;
        let mut keys = keys.iter();
        let signer = keys.find(|key| key.accepts(&found.text.0, &found.signature.0));
        let signer = signer.ok_or(Distrust::UnknownKey)?;
        let (manifest, statement) = payload::read(&found.text.0).map_err(damaged)?;
        if manifest == self.manifest { Ok((signer, statement)) } else { Err(Distrust::OtherImage) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::SigningKey;
    use super::*;

    fn key() -> SigningKey {
        let directory = tempfile::tempdir().unwrap();
        SigningKey::generate(&directory.path().join("key")).unwrap().0
    }

    fn signed(key: &SigningKey, content: &[u8]) -> Result<Signature, &'static str> {
        let text = payload::write("registry.example/app", &OciDigest::of(content), None);
        let signature = key.sign(&text).unwrap();
        Ok(Signature { text: Base64(text), signature: Base64(signature) })
    }

    fn judged(
        found: Vec<Result<Signature, &'static str>>,
        keys: &[&SigningKey],
    ) -> Result<(), Distrust> {
        let manifest = OciDigest::of(b"manifest");
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        let signatures = Signatures { manifest, found };
        signatures.accepted_by(&keys).map(|_| ())
    }

    #[test]
    fn one_good_signature_among_others_is_enough() {
        let (ours, theirs) = (key(), key());
        let found = vec![
            Err("it is missing"),
            signed(&theirs, b"manifest"),
            signed(&ours, b"other"),
            signed(&ours, b"manifest"),
        ];
        assert_eq!(judged(found, &[&ours]), Ok(()));
    }

    #[test]
    fn the_signature_of_another_image_is_distinguished_from_that_of_a_stranger() {
        let (ours, theirs) = (key(), key());
        let found =
            || vec![signed(&theirs, b"manifest"), signed(&ours, b"other"), Err("it is missing")];
        assert_eq!(judged(found(), &[&ours]), Err(Distrust::OtherImage));
        assert_eq!(judged(found(), &[&key()]), Err(Distrust::UnknownKey));
    }

    #[test]
    fn without_signatures_an_image_is_unsigned() {
        assert_eq!(judged(Vec::new(), &[&key()]), Err(Distrust::Unsigned));
    }

    #[test]
    fn without_keys_nothing_is_accepted() {
        let found = vec![signed(&key(), b"manifest")];
        assert_eq!(judged(found, &[]), Err(Distrust::UnknownKey));
    }

    #[test]
    fn no_byte_of_what_was_signed_can_be_changed() {
        let ours = key();
        let whole = signed(&ours, b"manifest").unwrap();
        for position in 0..whole.text.0.len() {
            let mut changed = whole.clone();
            changed.text.0[position] ^= 1;
            let outcome = judged(vec![Ok(changed)], &[&ours]);
            assert_eq!(outcome, Err(Distrust::UnknownKey), "{position}");
        }
    }
}
