// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who has signed the images of a registry, as far as the configuration knows the keys.

use std::fmt;
use std::path::PathBuf;

use cabane_label::escape;
use cabane_registry::{Distrust, Place, PublicKey, Signatures};
use cabane_site::Context;
use serde::Serialize;

use crate::pull::{Wanted, wanted};

/// The keys that the configuration names for a part of a registry.
pub struct KnownKeys {
    /// For each file that wants a signature, its keys.
    wanted: Vec<Wanted>,
}

/// What the signatures of an image say.
#[derive(Clone, Debug, Serialize)]
pub struct SignatureVerdict {
    state: State,
    signers: Vec<Signer>,
    /// Whether the configuration wants one.
    wanted: bool,
    /// Whether it is pulled.
    accepted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Known,
    Unsigned,
    UnknownKey,
    OtherImage,
    Damaged,
}

#[derive(Clone, Debug, Serialize)]
struct Signer {
    key: PathBuf,
    fingerprint: String,
}

impl KnownKeys {
    /// Reads the keys for a part of a registry. What cannot be read is reported, and counts as
    /// wanted and missing.
    pub fn of(context: &Context, place: &Place) -> Self {
        let wanted = wanted(context, place).unwrap_or_else(|error| {
            context.warning(&error.texts().0);
            vec![Wanted::default()]
        });
        Self { wanted }
    }

    /// Returns a name for each key: other names judge otherwise.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let keys = self.wanted.iter().flat_map(|one| &one.keys);
        keys.map(|(file, key)| format!("{} {}", file.display(), key.fingerprint())).collect()
    }

    /// Tells who has signed.
    pub fn judge(&self, signatures: &Signatures) -> SignatureVerdict {
        let mut signers = Vec::<Signer>::new();
        for (path, key) in self.wanted.iter().flat_map(|one| &one.keys) {
            let is_known = signers.iter().any(|one| one.key == *path);
            if !is_known && signatures.accepted_by(std::slice::from_ref(key)).is_ok() {
                signers.push(Signer {
                    key: path.clone(),
                    fingerprint: key.fingerprint().id().to_string(),
                });
            }
        }
        let all: Vec<PublicKey> = self.wanted.iter().flat_map(Wanted::public_keys).collect();
        let accepts = |one: &Wanted| signatures.accepted_by(&one.public_keys()).is_ok();
        SignatureVerdict {
            state: match signatures.accepted_by(&all).err() {
                None => State::Known,
                Some(Distrust::Unsigned) => State::Unsigned,
                Some(Distrust::OtherImage) => State::OtherImage,
                Some(Distrust::Damaged { .. }) => State::Damaged,
                Some(_) => State::UnknownKey,
            },
            signers,
            wanted: !self.wanted.is_empty(),
            accepted: self.wanted.iter().all(accepts),
        }
    }
}

impl SignatureVerdict {
    /// Adds what the configuration thinks of it.
    pub fn with_verdict(&self) -> String {
        match (self.wanted, self.accepted) {
            (true, false) => format!("{self}; a signature is wanted, and it is not pulled"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for SignatureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            State::Known => {
                for (number, signer) in self.signers.iter().enumerate() {
                    let comma = if number > 0 { ", " } else { "" };
                    let name = signer.key.file_name().unwrap_or(signer.key.as_os_str());
                    let name = name.to_string_lossy();
                    write!(f, "{comma}{} ({})", escape(&name), signer.fingerprint)?;
                }
                Ok(())
            }
            State::Unsigned => f.write_str("no"),
            State::OtherImage => f.write_str("for another image"),
            State::Damaged => f.write_str("damaged"),
            State::UnknownKey => f.write_str("with an unknown key"),
        }
    }
}
