// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The keys for packages of build caches: the same kind as for images.

use std::path::PathBuf;
use std::sync::Arc;

use cabane_builder::{PackageKeys, PackageSigner};
use cabane_registry::{Distrust, Envelope, PublicKey, SigningKey};
use cabane_report::{Report, Result};
use cabane_site::Context;

/// The type of what is signed for a package. The signature of another document is none of a package.
const KIND: &str = "application/vnd.cabane.package.v1+json";

#[derive(Debug)]
struct Keys(Vec<PublicKey>);

#[derive(Debug)]
struct Signer {
    key: SigningKey,
    own: Keys,
}

impl PackageKeys for Keys {
    fn open(&self, signature: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let damaged = Distrust::Damaged { reason: "it is not an envelope" };
        let envelope = Envelope::from_bytes(signature).ok_or(damaged);
        let opened =
            envelope.and_then(|one| one.open(KIND, &self.0).map(|(text, _)| text.to_vec()));
        opened.map_err(|reason| reason.to_string())
    }
}

impl PackageKeys for Signer {
    fn open(&self, signature: &[u8]) -> std::result::Result<Vec<u8>, String> {
        self.own.open(signature)
    }
}

impl PackageSigner for Signer {
    fn sign(&self, document: &[u8], before: Option<&[u8]>) -> std::result::Result<Vec<u8>, Report> {
        let mut envelope = Envelope::sign(KIND, document, &self.key)?;
        if let Some(before) = before.and_then(Envelope::from_bytes) {
            envelope = envelope.with_signatures_of(before);
        }
        Ok(envelope.to_bytes())
    }
}

/// Reads public keys whose signatures of packages count; none if there are no files.
///
/// # Errors
///
/// A file is not a public key.
pub fn package_keys(files: &[PathBuf]) -> Result<Option<Arc<dyn PackageKeys>>> {
    let keys = files.iter().map(|path| PublicKey::read(path)).collect::<Result<Vec<_>>>()?;
    Ok((!keys.is_empty()).then(|| Arc::new(Keys(keys)) as Arc<dyn PackageKeys>))
}

/// Reads the private key that signs packages. If others can read the file, there is a warning.
///
/// # Errors
///
/// The file is not a private key.
pub fn package_signer(context: &Context, file: &std::path::Path) -> Result<Arc<dyn PackageSigner>> {
    let key = cabane_signature_policy::signing_key(context, file)?;
    let own = Keys(vec![key.public()]);
    Ok(Arc::new(Signer { key, own }))
}
