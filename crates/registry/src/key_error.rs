// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a file is no key. Nothing of its content is ever told.

use std::io;
use std::path::PathBuf;

use cabane_label::{escape, shown};

/// Why a file is no key that can be used, or why a key was not made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key {}", shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
    /// The file is far too large.
    #[error("{} is too large for a key", shown(.path))]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// There is no key in the form PEM in the file.
    #[error("{} has no key in the form PEM", shown(.path))]
    None {
        /// The file.
        path: PathBuf,
    },
    /// A private key that is encrypted in the way of OpenSSL.
    #[error("the private key {} is encrypted", shown(.path))]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// A private key that is encrypted in the way of cosign.
    #[error("the private key {} is encrypted in the way of cosign, which is not supported", shown(.path))]
    CosignEncrypted {
        /// The file.
        path: PathBuf,
    },
    /// A private key in the older form of OpenSSL.
    #[error("the private key {} is not in the form PKCS#8", shown(.path))]
    OldForm {
        /// The file.
        path: PathBuf,
    },
    /// A private key where a public one is wanted.
    #[error("{} is a private key, and a public one is wanted", shown(.path))]
    NotPublic {
        /// The file.
        path: PathBuf,
    },
    /// A public key where a private one is wanted.
    #[error("{} is a public key, and a private one is wanted", shown(.path))]
    NotPrivate {
        /// The file.
        path: PathBuf,
    },
    /// Something else: a certificate, a key of another kind.
    #[error("{} has a `{}`, and not a key", shown(.path), escape(.kind))]
    Other {
        /// The file.
        path: PathBuf,
        /// What its first line calls it.
        kind: String,
    },
    /// A key of another algorithm or curve, or a damaged one.
    #[error("{} is not an ECDSA key on the curve P-256", shown(.path))]
    Algorithm {
        /// The file.
        path: PathBuf,
    },
    /// A new key would have to be written over a file.
    #[error("{} exists, and is not overwritten", shown(.path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A new key cannot be written.
    #[error("cannot write the key {}", shown(.path))]
    Write {
        /// The file.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("there are no random numbers for a key or a signature")]
    Random,
}

impl KeyError {
    /// Returns what the user may type to get further, when there is such a thing.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Encrypted { path } | Self::OldForm { path } => Some(format!(
                "`(umask 77; openssl pkcs8 -topk8 -nocrypt -in {} -out NEW)` writes it as it is \
                 wanted",
                shown(path)
            )),
            Self::CosignEncrypted { .. } => Some(
                "`cabane image key new FILE` makes a key for both, which \
                 `cosign import-key-pair --key FILE` takes over"
                    .to_owned(),
            ),
            Self::NotPublic { path } => {
                Some(format!("`openssl pkey -in {} -pubout` shows the public one", shown(path)))
            }
            Self::None { .. }
            | Self::NotPrivate { .. }
            | Self::Other { .. }
            | Self::Algorithm { .. } => Some(
                "`cabane image key new FILE` makes a private key FILE and a public one FILE.pub"
                    .to_owned(),
            ),
            Self::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("`ls -ld {}` shows who may", shown(path)))
            }
            Self::Exists { .. } => Some("choose another name".to_owned()),
            Self::Read { .. } | Self::TooLarge { .. } | Self::Write { .. } | Self::Random => None,
        }
    }
}
