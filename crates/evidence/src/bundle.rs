// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A statement with its signature, as Sigstore stores it: a bundle, version 0.3, around an envelope of
//! DSSE. With a key there is neither a certificate nor an entry of a log in it.
//!
//! Format: `protos/sigstore_bundle.proto` of <https://github.com/sigstore/protobuf-specs>.

use cabane_label::Digest;
use cabane_registry::{Distrust, Envelope, MAX_BUNDLE, PublicKey, SigningKey, sum};
use cabane_report::{Kind, Report, Result};
use serde::{Deserialize, Serialize};

use crate::statement::Statement;

/// The type of what is signed.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// The largest statement with the signature of a stranger that is read, in bytes. As values in memory it
/// can take twenty times as much.
const MOST_UNTRUSTED: usize = 64 * 1024;
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A statement, and who signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedStatement {
    media_type: String,
    verification_material: Material,
    dsse_envelope: Envelope,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<KeyHint>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeyHint {
    #[serde(default)]
    hint: String,
}

impl SignedStatement {
    /// Signs a statement.
    ///
    /// # Errors
    ///
    /// The system has no random numbers; the statement is too large to be read again.
    pub fn sign(statement: &Statement, key: &SigningKey) -> Result<Self> {
        let hint = key.public().fingerprint().to_string();
        let signed = Self {
            media_type: MEDIA_TYPE.to_owned(),
            verification_material: Material { public_key: Some(KeyHint { hint }) },
            dsse_envelope: Envelope::sign(IN_TOTO, &statement.to_bytes(), key)?,
        };
        let size = signed.to_bytes().len() as u64;
        if size > MAX_BUNDLE {
            let message = format!("the statement has {size} bytes, and {MAX_BUNDLE} are the limit");
            let hint = "run large suites one by one".to_owned();
            return Err(Report::new(Kind::Failure, message).hinted(hint));
        }
        Ok(signed)
    }

    /// Reads a bundle with an envelope; `None` for what is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Writes the bundle, in one line.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers, lists and maps of them are always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns a name for it: the sha256 of the statement.
    #[must_use]
    pub fn id(&self) -> Digest {
        sum::bytes(self.dsse_envelope.payload())
    }

    /// Returns the sha256 of the statement with its signatures.
    #[must_use]
    pub fn digest(&self) -> Digest {
        sum::bytes(&self.to_bytes())
    }

    /// As [`Self::unverified`], for what nobody here trusts: a large one is not read.
    pub(crate) fn unverified_small(&self) -> Option<Statement> {
        let is_small = self.dsse_envelope.payload().len() <= MOST_UNTRUSTED;
        is_small.then(|| self.unverified()).flatten()
    }

    /// Returns what it says, whoever signed it; `None` if it is no statement of in-toto.
    #[must_use]
    pub fn unverified(&self) -> Option<Statement> {
        let is_statement = self.dsse_envelope.kind() == IN_TOTO;
        is_statement.then(|| Statement::from_bytes(self.dsse_envelope.payload())).flatten()
    }

    /// Returns what it says and the key that signed it.
    ///
    /// # Errors
    ///
    /// Why none of the keys accepts it.
    pub fn open<'k>(&self, keys: &'k [PublicKey]) -> Result<(Statement, &'k PublicKey), Distrust> {
        let (payload, key) = self.dsse_envelope.open(IN_TOTO, keys)?;
        let statement = Statement::from_bytes(payload);
        let statement =
            statement.ok_or(Distrust::Damaged { reason: "it is no statement of in-toto" })?;
        Ok((statement, key))
    }
}
