// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the images of a registry have the signatures that are wanted.

use std::path::{Path, PathBuf};

use cabane_registry::{Distrust, KeyError, Place, PublicKey, RemoteImage, Signatures, SigningKey};

use crate::convert;
use crate::exit_codes;
use crate::registry::Connection;
use crate::report::{CommandError, CommandResult};
use crate::setup::Setup;

#[derive(Debug, thiserror::Error)]
#[error("`{place}` is not trusted: {reason}")]
struct Untrusted {
    place: Box<Place>,
    reason: Distrust,
}

/// Keys of which one must have signed, and who wants that.
pub(crate) struct Wanted {
    who: String,
    keys: Vec<(PathBuf, PublicKey)>,
}

impl Wanted {
    /// Reads keys. One that cannot be read is an error: it could be the one that counts.
    ///
    /// # Errors
    ///
    /// A file that is no public key.
    pub(crate) fn new(who: String, paths: &[PathBuf]) -> CommandResult<Self> {
        let keys = paths
            .iter()
            .map(|path| Ok((path.clone(), PublicKey::read(path)?)));
        let keys: Result<_, KeyError> = keys.collect();
        let keys = keys.map_err(|error| convert::registry_error(error.into()))?;
        Ok(Self { who, keys })
    }

    /// Returns the file of the key that has signed an image.
    ///
    /// # Errors
    ///
    /// That none has, and why not.
    pub(crate) fn signer(
        &self,
        image: &RemoteImage,
        signatures: &Signatures,
    ) -> CommandResult<&Path> {
        let keys: Vec<_> = self.keys.iter().map(|(_, key)| key.clone()).collect();
        let accepted = signatures.accepted_by(&keys);
        let accepted = accepted.map_err(|reason| self.refuse(&image.place, reason))?;
        let mut known = self.keys.iter().filter(|(_, key)| key == accepted);
        let path = known.next().map(|(path, _)| path.as_path());
        Ok(path.unwrap_or(Path::new("")))
    }

    fn refuse(&self, place: &Place, reason: Distrust) -> CommandError {
        let mut detail = format!("  {} wants a signature by one of these keys:\n", self.who);
        for (path, key) in &self.keys {
            detail += &format!("    {} ({})\n", path.display(), key.fingerprint().id());
        }
        let place = Box::new(place.clone());
        let error = Untrusted { place, reason };
        let hint = "who has such a key signs it: `cabane image sign LABEL --key FILE`";
        CommandError::new(exit_codes::UNTRUSTED, error)
            .detailed(detail)
            .hinted(hint.to_owned())
    }
}

/// Returns what the configuration wants of the images of a place: one of each file that
/// wants something.
///
/// # Errors
///
/// Keys that cannot be read.
pub(crate) fn wanted(setup: &Setup, place: &Place) -> CommandResult<Vec<Wanted>> {
    let mut wanted = Vec::new();
    for setting in &setup.settings.trust {
        if let Some(keys) = setting.keys(&place.namespace, &setup.calling)? {
            wanted.push(Wanted::new(setting.file.display().to_string(), &keys)?);
        }
    }
    Ok(wanted)
}

/// Checks that an image has the signatures that the configuration wants. Returns whether it
/// wants any.
///
/// # Errors
///
/// That it has not, and why not.
pub(crate) fn check(
    setup: &Setup,
    connection: &Connection,
    image: &RemoteImage,
) -> CommandResult<bool> {
    let wanted = wanted(setup, &image.place)?;
    if wanted.is_empty() {
        return Ok(false);
    }
    let signatures = connection.registry.signatures(image);
    let signatures = signatures.map_err(convert::registry_error)?;
    for one in &wanted {
        let signer = one.signer(image, &signatures)?.display();
        setup
            .printer
            .detail(format_args!("{} is signed with {signer}", image.place));
    }
    Ok(true)
}

/// Reads the key that is to sign; one that is not kept well is warned about.
///
/// # Errors
///
/// A file that is no private key.
pub(crate) fn signing_key(setup: &Setup, path: &Path) -> CommandResult<SigningKey> {
    let read = SigningKey::read(path);
    let (key, warning) = read.map_err(|error| convert::registry_error(error.into()))?;
    if let Some(warning) = warning {
        setup.printer.warning(&warning.to_string());
        setup.printer.hint(&warning.hint());
    }
    Ok(key)
}
