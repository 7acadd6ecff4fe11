// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether images have the signatures that are wanted, when they are pulled; what is kept of
//! these signatures beside the image is looked at by `trust_at_start`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use cabane_label::{Digest, escape};
use cabane_recipe::{Labels, Requirement};
use cabane_registry::{
    Distrust, MAX_RECORD, Place, PublicKey, Registry, RemoteImage, SignatureRecord, Signatures,
    SigningKey,
};
use cabane_report::{Kind, Report, Result};
use cabane_repository::{Repository, signatures_beside};
use cabane_site::Context;
use cabane_site::settings::TrustSetting;

use crate::labels::check_label;

/// Keys of which one must have signed, and who wants that.
#[derive(Default)]
pub struct Wanted {
    who: String,
    pub(crate) keys: Vec<(PathBuf, PublicKey)>,
    pub(crate) labels: Labels,
}

impl Wanted {
    /// Reads keys. One that cannot be read is an error: it could be the one that counts.
    ///
    /// # Errors
    ///
    /// A file that is no public key.
    pub fn new(who: String, paths: &[PathBuf]) -> Result<Self> {
        let keys = paths.iter().map(|path| Ok((path.clone(), PublicKey::read(path)?)));
        let keys = keys.collect::<Result<_>>()?;
        Ok(Self { who, keys, labels: Labels::default() })
    }

    /// Reads the keys that a rule of a configuration file names; `None` if it wants nothing.
    ///
    /// # Errors
    ///
    /// Keys that cannot be read.
    pub fn of_rule(
        context: &Context,
        setting: &TrustSetting,
        requirement: &Requirement,
    ) -> Result<Option<Self>> {
        let keys = setting.keys(requirement, &context.calling)?;
        let who = || setting.file.display().to_string();
        let labels = match requirement {
            Requirement::Signature { labels, .. } => *labels,
            Requirement::Nothing => Labels::default(),
        };
        let wanted = keys.map(|keys| Self::new(who(), &keys)).transpose()?;
        Ok(wanted.map(|wanted| Self { labels, ..wanted }))
    }

    pub(crate) fn public_keys(&self) -> Vec<PublicKey> {
        self.keys.iter().map(|(_, key)| key.clone()).collect()
    }

    /// Returns the file of the key that has signed an image of a registry.
    ///
    /// # Errors
    ///
    /// That none has, and why not.
    pub fn signer_of_remote(&self, image: &RemoteImage, signatures: &Signatures) -> Result<&Path> {
        let accepted = |keys: &[PublicKey]| signatures.accepted_by(keys).cloned();
        self.signer_by(accepted).map_err(|reason| {
            let hint = "who has such a key signs it: `cabane image sign LABEL --key FILE`";
            self.refuse(&image.place.to_string(), reason, hint.to_owned())
        })
    }

    /// Returns the file of the accepted key.
    pub fn signer_by(
        &self,
        accepted: impl Fn(&[PublicKey]) -> Result<PublicKey, Distrust>,
    ) -> Result<&Path, Distrust> {
        let accepted = accepted(&self.public_keys())?;
        let mut known = self.keys.iter().filter(|(_, key)| *key == accepted);
        let path = known.next().map(|(path, _)| path.as_path());
        Ok(path.unwrap_or(Path::new("")))
    }

    /// Tells that something is not trusted, why, and by whose will.
    pub fn refuse(&self, what: &str, reason: impl fmt::Display, hint: String) -> Report {
        let mut detail = format!("  {} wants a signature by one of these keys:\n", self.who);
        for (path, key) in &self.keys {
            detail += &format!("    {} ({})\n", path.display(), key.fingerprint().id());
        }
        let message = format!("`{}` is not trusted: {reason}", escape(what));
        Report::new(Kind::Untrusted, message).detailed(detail).hinted(hint)
    }
}

/// Returns what the configuration wants of the images of a place: one of each file that
/// wants something.
///
/// # Errors
///
/// Keys that cannot be read.
pub fn wanted(context: &Context, place: &Place) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    for setting in &context.settings.trust {
        let requirement = setting.policy.requirement(&place.namespace);
        wanted.extend(Wanted::of_rule(context, setting, requirement)?);
    }
    Ok(wanted)
}

/// What was found out about the signatures of an image of a registry.
#[derive(Debug)]
pub struct Checked {
    /// Whether the configuration wants a signature, which the image has.
    pub is_signed: bool,
    /// What is to be kept of them, wanted or not.
    pub record: Option<SignatureRecord>,
}

/// Checks that an image has the signatures that the configuration wants.
///
/// # Errors
///
/// That it has not, and why not.
pub fn check_at_pull(
    context: &Context,
    registry: &Registry,
    image: &RemoteImage,
) -> Result<Checked> {
    let wanted = wanted(context, &image.place)?;
    let signatures = match registry.signatures(image) {
        // Others may want to know, but this pull needs no one's signature.
        Err(_) if wanted.is_empty() => return Ok(Checked { is_signed: false, record: None }),
        signatures => signatures?,
    };
    for one in &wanted {
        let signer = one.signer_of_remote(image, &signatures)?.display();
        context.detail(format_args!("{} is signed with {signer}", image.place));
        check_label(context, registry, image, one, &signatures)?;
    }
    Ok(Checked { is_signed: !wanted.is_empty(), record: Some(registry.record(image, &signatures)) })
}

/// Keeps what is known of the signatures of an image beside it.
///
/// That it cannot be written there is no reason to give the image up.
pub fn remember(
    context: &Context,
    repository: &Repository,
    digest: &Digest,
    record: SignatureRecord,
) {
    let image = repository.image_path(digest);
    let before = signatures_beside(&image, MAX_RECORD).ok().flatten();
    let known = before.as_deref().and_then(SignatureRecord::from_bytes);
    let Ok(found) = fs::metadata(&image) else {
        return;
    };
    let modified = (found.mtime(), found.mtime_nsec());
    let record = match known {
        Some(known) => record.joined_to(known),
        None => record,
    };
    let bytes = record.with_file(found.len(), modified).to_bytes();
    if before.as_ref() == Some(&bytes) {
        return;
    }
    if let Err(error) = repository.keep_signatures(digest, &bytes) {
        context.detail(format_args!("the signatures are not kept: {error}"));
    }
}

/// Reads the key that is to sign; one that is not kept well is warned about.
///
/// # Errors
///
/// A file that is no private key.
pub fn signing_key(context: &Context, path: &Path) -> Result<SigningKey> {
    let (key, kept_badly) = SigningKey::read(path)?;
    if let Some(kept_badly) = kept_badly {
        context.warning(kept_badly.warning);
        context.hint(kept_badly.hint);
    }
    Ok(key)
}
