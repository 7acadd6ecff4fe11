// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which release replaces this one, and doing it.

use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_registry::{PublicKey, sum};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::{Context, Installation, UpdatedBy};
use rustix::fs::{Access, access};

use crate::archive;
use crate::place::Place;
use crate::sums::{LIST, SIGNATURE, newest, signature, sum_of};
use crate::version::Version;

/// Where `install.sh` puts the helper below its prefix.
const HELPER: &str = "libexec/cabane/cabane-mount";

/// A release that can be installed in the place of this one.
#[derive(Debug)]
pub struct Plan {
    /// Its version.
    pub version: Version,
    /// Below which directory it is installed.
    pub prefix: PathBuf,
    place: Place,
    name: String,
    /// What its sum must be, if there is a list of sums.
    sum: Option<String>,
    scratch: tempfile::TempDir,
}

/// Finds the release that replaces this one: the archive `from`, or the newest one in a directory or below a URL; by
/// default that of the configuration. Returns `None` if none there is newer. An archive that is named replaces
/// any version.
///
/// # Errors
///
/// Another tool installed this program; the release cannot be read; a signature or a sum is missing or wrong.
pub fn plan(context: &Context, from: Option<&str>) -> Result<Option<Plan>> {
    let prefix = prefix(context)?;
    let update = &context.settings.update;
    let Some(from) = from.or(update.source.value.as_deref()) else {
        let message = "no place of new releases is configured";
        return Err(Report::new(Kind::Usage, message).hinted(
            "name an archive, as in `cabane self update cabane-1.2.3-linux-x86_64.tar.gz`, or set `update.source` \
             in config.toml"
                .to_owned(),
        ));
    };
    let place = Place::parse(from)?;
    let scratch = tempfile::Builder::new().prefix("cabane-update-").tempdir();
    let scratch = scratch.or_failed(|| "make a directory for temporary files".to_owned())?;
    let list = list(&place, &update.keys, scratch.path())?;
    let version = match &place {
        Place::Archive(path) => version_of(path)?,
        Place::Directory(_) | Place::Url(_) => newest(&list).ok_or_else(|| {
            let machine = std::env::consts::ARCH;
            let message = format!("{LIST} of {place} names no archive for Linux on {machine}");
            Report::new(Kind::NotFound, message)
        })?,
    };
    if !matches!(place, Place::Archive(_)) && version <= Version::running() {
        return Ok(None);
    }
    let name = version.archive();
    let sum = sum_of(&list, &name);
    if sum.is_none() && place.must_have_list(LIST) {
        return Err(Report::new(Kind::BadInput, format!("{LIST} of {place} has no sum of {name}")));
    }
    Ok(Some(Plan { version, prefix, place, name, sum, scratch }))
}

impl Plan {
    /// Installs the release.
    ///
    /// # Errors
    ///
    /// The archive cannot be read or is not the one in the list of sums; the installer fails.
    pub fn install(&self) -> Result<()> {
        let archive = self.place.bring(&self.name, self.scratch.path())?;
        if let Some(wanted) = &self.sum {
            let found = sum::file(&archive, &mut |_, _| {})?;
            if found.as_str() != wanted.to_ascii_lowercase() {
                let message = format!(
                    "{} of {} is damaged: its sum is not that in {LIST}; nothing was installed",
                    self.name, self.place
                );
                return Err(Report::new(Kind::BadInput, message));
            }
        }
        let unpacked = archive::unpack(&archive, self.scratch.path(), self.version)?;
        let origin = self.place.unpacked(&self.name).unwrap_or_else(|| unpacked.clone());
        archive::install(&unpacked, &origin, &self.prefix, self.prefix.join(HELPER).exists())
    }
}

/// Where this program is installed, if it may replace itself.
fn prefix(context: &Context) -> Result<PathBuf> {
    let program = context.program();
    match Installation::of(program).updated_by() {
        UpdatedBy::Itself(prefix) if access(prefix.join("bin"), Access::WRITE_OK).is_ok() => {
            Ok(prefix)
        }
        UpdatedBy::Itself(prefix) => {
            let message = format!(
                "you cannot write to {}, where this cabane is installed",
                shown(&prefix.join("bin"))
            );
            let program = program.unwrap_or_else(|| Path::new("cabane"));
            let hint = format!("sudo {} self update", shown(program));
            Err(Report::new(Kind::Usage, message).hinted(format!("`{hint}`")))
        }
        UpdatedBy::Another(what, remedy) => {
            let message = format!("this cabane is updated by {what}, and does not replace itself");
            Err(Report::new(Kind::Usage, message).hinted(remedy.hint()))
        }
    }
}

/// The list of sums, signed by one of the keys if there are keys; empty for an archive that has none beside it.
fn list(place: &Place, keys: &[PathBuf], scratch: &Path) -> Result<String> {
    if !place.must_have_list(LIST) && keys.is_empty() {
        return Ok(String::new());
    }
    let list = place.read(LIST, scratch)?;
    if !keys.is_empty() {
        let signature = signature(&place.read(SIGNATURE, scratch)?);
        let keys: Vec<PublicKey> =
            keys.iter().map(|path| PublicKey::read(path)).collect::<Result<_>>()?;
        if !keys.iter().any(|key| key.accepts(&list, &signature)) {
            let message =
                format!("no key of `update.keys` signed {LIST} of {place}; nothing was installed");
            return Err(Report::new(Kind::Untrusted, message));
        }
    }
    String::from_utf8(list).map_err(|error| {
        Report::caused(Kind::BadInput, format!("{LIST} of {place} is no text"), error)
    })
}

fn version_of(archive: &Path) -> Result<Version> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    Version::of_archive(&name).ok_or_else(|| {
        let machine = std::env::consts::ARCH;
        let message = format!("{} is not the name of an archive for this machine", shown(archive));
        Report::new(Kind::Usage, message)
            .hinted(format!("archives are called cabane-1.2.3-linux-{machine}.tar.gz"))
    })
}
