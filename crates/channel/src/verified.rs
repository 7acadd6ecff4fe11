// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Documents whose signature and place have been checked.

use std::fmt;
use std::path::PathBuf;

use cabane_label::{Digest, escape};
use cabane_registry::{ChannelPlace, Envelope, PublicKey, sum};
use cabane_report::{Kind, Report, Result};
use cabane_site::settings::ChannelSetting;

use crate::document::ChannelDocument;

/// A document of a channel that one of the keys of the configuration has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedChannel {
    /// What it says.
    pub document: ChannelDocument,
    /// The sha256 of the bytes that were signed.
    pub digest: Digest,
    /// The file of the key.
    pub key: PathBuf,
    /// The document as it is stored.
    pub envelope: Envelope,
}

/// Reads the keys that may sign the documents of a channel.
///
/// # Errors
///
/// A file that is no public key.
pub fn channel_keys(setting: &ChannelSetting) -> Result<Vec<(PathBuf, PublicKey)>> {
    setting.keys.iter().map(|path| Ok((path.clone(), PublicKey::read(path)?))).collect()
}

impl VerifiedChannel {
    /// Checks a document: its signature, and that it is for this channel.
    ///
    /// # Errors
    ///
    /// Why it does not count.
    pub fn open(
        setting: &ChannelSetting,
        place: &ChannelPlace,
        envelope: &Envelope,
    ) -> Result<Self> {
        let known = channel_keys(setting)?;
        let keys: Vec<_> = known.iter().map(|(_, key)| key.clone()).collect();
        let (payload, signer) = envelope
            .open(ChannelDocument::KIND, &keys)
            .map_err(|reason| untrusted(setting, place, &reason, &known))?;
        let document = ChannelDocument::from_bytes(payload).map_err(|reason| {
            let reason = escape(&reason).into_owned();
            let message = format!("the document of the channel {place} is malformed: {reason}");
            Report::new(Kind::Registry, message)
        })?;
        if document.place() != *place {
            let other = document.place();
            let reason = format!("its document is signed for the channel {other}");
            return Err(untrusted(setting, place, &reason, &known));
        }
        let key = known.iter().find(|(_, key)| key == signer).map(|(path, _)| path.clone());
        Ok(Self {
            document,
            digest: sum::bytes(payload),
            key: key.unwrap_or_default(),
            envelope: envelope.clone(),
        })
    }

    /// Whether this document is the one after another.
    pub fn follows(&self, before: &Self) -> bool {
        self.document.serial == before.document.serial.saturating_add(1)
            && self.document.previous.as_ref() == Some(&before.digest)
    }
}

/// Says why a channel is not trusted, and whose keys count.
pub(crate) fn untrusted(
    setting: &ChannelSetting,
    place: &ChannelPlace,
    reason: &dyn fmt::Display,
    keys: &[(PathBuf, PublicKey)],
) -> Report {
    let mut detail = format!("  {} names these keys:\n", setting.file.display());
    for (path, key) in keys {
        detail += &format!("    {} ({})\n", path.display(), key.fingerprint().id());
    }
    let message = format!("the channel {place} is not trusted: {reason}");
    Report::new(Kind::Untrusted, message)
        .detailed(detail)
        .hinted(format!("`cabane channel log {place}` shows the states that count"))
}
