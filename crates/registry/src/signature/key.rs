// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keys for signatures: ECDSA on the curve P-256 with SHA-256, each in a file.
//!
//! A private key is in the form PKCS#8 and not encrypted: it is kept by file modes, as those of
//! hosts are. A public key is a `SubjectPublicKeyInfo`, as OpenSSL and cosign write it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cabane_label::{Digest, escape, shown};
use cabane_report::{Kind, Report, Result};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use sha2::{Digest as _, Sha256};

use super::pem;
use crate::files::{KeptBadly, read_up_to, unreadable};

/// Keys have some hundred bytes; comments may stand around them.
const MAX_SIZE: u64 = 64 * 1024;
const PUBLIC: &str = "PUBLIC KEY";
const PRIVATE: &str = "PRIVATE KEY";
/// What precedes the point in a `SubjectPublicKeyInfo` of P-256: two sequences, the
/// numbers of the algorithm and of the curve, and the head of a string of 65 bytes.
const PUBLIC_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const POINT: usize = 65;
/// How a point begins whose both coordinates are there.
const UNCOMPRESSED: u8 = 4;

/// A key by which signatures are checked.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    point: Vec<u8>,
}

/// A key that signs.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl PublicKey {
    /// Reads a key from a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that has something else in it.
    pub fn read(path: &Path) -> Result<Self> {
        let (text, _) = read(path)?;
        let block = block_of(&text, path)?;
        if block.kind.ends_with(PRIVATE) {
            let path = shown(path);
            let message = format!("{path} is a private key, and a public one is wanted");
            return Err(Report::new(Kind::BadInput, message)
                .hinted(format!("`openssl pkey -in {path} -pubout` shows the public one")));
        }
        if block.kind != PUBLIC {
            return Err(other(path, block.kind));
        }
        let content = block.content.unwrap_or_default();
        let point = content.strip_prefix(&PUBLIC_HEAD).unwrap_or_default();
        if point.len() != POINT || point.first() != Some(&UNCOMPRESSED) {
            return Err(wrong_algorithm(path));
        }
        Ok(Self { point: point.to_owned() })
    }

    fn to_der(&self) -> Vec<u8> {
        [&PUBLIC_HEAD[..], &self.point].concat()
    }

    /// Returns the key as it is in a file.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::write(PUBLIC, &self.to_der())
    }

    /// Returns the sha256 of the key, by which people may compare it.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::from_bytes(Sha256::digest(self.to_der()).into())
    }

    /// Returns whether a signature, in the form of ASN.1, of a text was made with this key.
    #[must_use]
    pub fn accepts(&self, text: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point);
        key.verify(text, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint().id())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().fingerprint().id())
    }
}

impl SigningKey {
    /// Reads a private key from a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that has something else in it.
    pub fn read(path: &Path) -> Result<(Self, Option<KeptBadly>)> {
        let (text, file) = read(path)?;
        let block = block_of(&text, path)?;
        let refused = |what: &str| format!("the private key {} {what}", shown(path));
        let message = match block.kind {
            PRIVATE => {
                let content = block.content.unwrap_or_default();
                let key = Self::from_pkcs8(&content).ok_or_else(|| wrong_algorithm(path))?;
                return Ok((key, warning(&file, path)));
            }
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
                let message = refused("is encrypted in the way of cosign, which is not supported");
                return Err(Report::new(Kind::BadInput, message).hinted(
                    "`cabane image key new FILE` makes a key for both, which \
                     `cosign import-key-pair --key FILE` takes over"
                        .to_owned(),
                ));
            }
            "ENCRYPTED PRIVATE KEY" => refused("is encrypted"),
            "EC PRIVATE KEY" => refused("is not in the form PKCS#8"),
            PUBLIC => return Err(no_key(path, "is a public key, and a private one is wanted")),
            kind => return Err(other(path, kind)),
        };
        Err(Report::new(Kind::BadInput, message).hinted(format!(
            "`(umask 77; openssl pkcs8 -topk8 -nocrypt -in {} -out NEW)` writes it as it is \
             wanted",
            shown(path)
        )))
    }

    fn from_pkcs8(content: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, content, &random);
        Some(Self { pair: pair.ok()?, random })
    }

    /// Makes a key, and writes it to a new file that only its owner may read. The public key
    /// goes to a file of the same name with `.pub` behind it, which is returned.
    ///
    /// # Errors
    ///
    /// One of the files is there; it stays as it is.
    pub fn generate(path: &Path) -> Result<(Self, PathBuf)> {
        let random = SystemRandom::new();
        let content = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            .map_err(|_| not_random())?;
        let key = Self::from_pkcs8(content.as_ref()).ok_or_else(not_random)?;
        let mut name = path.as_os_str().to_owned();
        name.push(".pub");
        let public = PathBuf::from(name);
        write_new(path, 0o600, &pem::write(PRIVATE, content.as_ref()))?;
        if let Err(error) = write_new(&public, 0o644, &key.public().to_pem()) {
            // Half a pair would be in the way of the next attempt.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok((key, public))
    }

    /// Returns the key by which its signatures are checked.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey { point: self.pair.public_key().as_ref().to_owned() }
    }

    /// Signs a text.
    pub(super) fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let signature = self.pair.sign(&self.random, text);
        let signature = signature.map_err(|_| not_random())?;
        Ok(signature.as_ref().to_owned())
    }
}

fn read(path: &Path) -> Result<(String, File)> {
    let refused = |source| unreadable("the key ", path)(source).with_kind(Kind::BadInput);
    let file = File::open(path).map_err(refused)?;
    let bytes = read_up_to(MAX_SIZE, &file).map_err(refused)?.ok_or_else(|| {
        Report::new(Kind::BadInput, format!("{} is too large for a key", shown(path)))
    })?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), file))
}

fn block_of<'t>(text: &'t str, path: &Path) -> Result<pem::Block<'t>> {
    pem::read(text).ok_or_else(|| no_key(path, "has no key in the form PEM"))
}

/// A certificate, or a key of another kind.
fn other(path: &Path, kind: &str) -> Report {
    no_key(path, &format!("has a `{}`, and not a key", escape(kind)))
}

/// A key of another algorithm or curve, or a damaged one.
fn wrong_algorithm(path: &Path) -> Report {
    no_key(path, "is not an ECDSA key on the curve P-256")
}

fn no_key(path: &Path, what: &str) -> Report {
    Report::new(Kind::BadInput, format!("{} {what}", shown(path))).hinted(
        "`cabane image key new FILE` makes a private key FILE and a public one FILE.pub".to_owned(),
    )
}

fn not_random() -> Report {
    Report::new(Kind::BadInput, "there are no random numbers for a key or a signature")
}

/// A pipe is no one else's.
fn warning(file: &File, path: &Path) -> Option<KeptBadly> {
    let metadata = file.metadata().ok()?;
    let is_open = metadata.is_file() && metadata.mode() & 0o077 != 0;
    let path = shown(path);
    is_open.then(|| KeptBadly {
        warning: format!("others can read the private key {path}"),
        hint: format!("`chmod 600 {path}` leaves it to its owner"),
    })
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<()> {
    let refused = |source: io::Error| {
        let path = shown(path);
        match source.kind() {
            io::ErrorKind::AlreadyExists => {
                Report::new(Kind::BadInput, format!("{path} exists, and is not overwritten"))
                    .hinted("choose another name".to_owned())
            }
            _ => Report::caused(Kind::BadInput, format!("cannot write the key {path}"), source),
        }
    };
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(mode);
    let mut file = options.open(path).map_err(refused)?;
    let written = file.write_all(text.as_bytes());
    let written = written.and_then(|()| file.sync_all());
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        refused(error)
    })
}

#[cfg(test)]
mod tests;
