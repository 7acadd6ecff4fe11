// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Spack or its packages from an archive, in the place of a Git repository.
//!
//! What takes the place of the commit is the sha256 of the archive. A recipe that names
//! it as its `commit` gets exactly this archive or an error; another name there is only
//! that: it may tell the version of Spack.
//!
//! ```text
//! <cache>/archives/<id>          what an address gave, when it was first used
//! <cache>/trees/<sha256>/        what is in it, as for commits
//! ```

use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_report::{Kind, Report};

use super::{Source, Sources, is_commit};
use crate::build_context::BuildContext;
use crate::sandbox::Invocation;
use crate::turn::Turn;
use crate::{BuildError, Result, disk, fingerprint};

/// The archives in the cache.
pub(super) const ARCHIVES: &str = "archives";

const ENDINGS: [&str; 6] = [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"];

/// Whether an address is that of an archive.
pub(crate) fn is_archive(address: &str) -> bool {
    ENDINGS.iter().any(|ending| address.ends_with(ending))
}

impl Sources {
    /// Returns the commands that get an archive, as they could be typed.
    pub(super) fn archive_invocations(&self, source: &Source) -> Vec<Invocation> {
        let file = self.archive_of(source);
        let tree = Path::new("SHA256");
        match &file {
            Place::Here(file) => vec![self.unpack(file, tree)],
            Place::Cached(file) => vec![self.download(source, file), self.unpack(file, tree)],
        }
    }

    /// Gets an archive and unpacks it; returns its sha256.
    pub(super) fn get_archive(
        &self,
        source: &Source,
        bench: &mut BuildContext<'_>,
    ) -> Result<String> {
        let wanted = source.reference.as_deref().filter(|name| is_sha256(name));
        let file = match self.archive_of(source) {
            Place::Here(file) => file,
            Place::Cached(file) => {
                let lock = file.with_extension("lock");
                let _turn = Turn::take(&lock, bench.progress, bench.interrupt)?;
                if !is_archived(&file, wanted) {
                    let new = file.with_extension("new");
                    disk::remove(&new)?;
                    bench.run_outside(&self.download(source, &new), &[])?;
                    disk::rename(&new, &file)?;
                }
                file
            }
        };
        let found = digest(&file)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let message = format!(
                "{} is not the archive that the recipe names: its sha256 is {found}, not {wanted}",
                escape(&source.address)
            );
            let hint = format!("if it is the right one, write `commit: {found}` in config.yaml");
            return Err(Report::new(Kind::Build, message).hinted(hint).into());
        }
        self.make_tree(&found, bench, |new, bench| {
            bench.run_outside(&self.unpack(&file, new), &[])
        })?;
        Ok(found)
    }

    /// The sha256 of an archive that is on this machine.
    pub(super) fn archived(&self, source: &Source) -> Option<String> {
        if let Some(wanted) = source.reference.as_deref().filter(|name| is_sha256(name)) {
            return Some(wanted.to_owned());
        }
        match self.archive_of(source) {
            Place::Here(file) | Place::Cached(file) => digest(&file).ok(),
        }
    }

    fn archive_of(&self, source: &Source) -> Place {
        let address = source.address.as_str();
        let local = address.strip_prefix("file://").unwrap_or(address);
        if local.starts_with('/') {
            return Place::Here(local.into());
        }
        Place::Cached(self.cache.join(ARCHIVES).join(id_of(Path::new(address))))
    }

    fn download(&self, source: &Source, to: &Path) -> Invocation {
        let options =
            ["--fail", "--location", "--silent", "--show-error", "--retry", "3", "--output"];
        Invocation::new(&self.curl, "/").with(options).with([to]).with([&source.address])
    }

    fn unpack(&self, file: &Path, to: &Path) -> Invocation {
        let options = ["--extract", "--no-same-owner", "--strip-components=1"];
        let places = [Path::new("--file"), file, Path::new("--directory"), to];
        Invocation::new(&self.tar, "/").with(options).with(places)
    }
}

/// Where an archive is.
enum Place {
    Here(PathBuf),
    Cached(PathBuf),
}

/// Whether what was got before is there, and is what is wanted now.
fn is_archived(file: &Path, wanted: Option<&str>) -> bool {
    let is_wanted = |wanted| digest(file).is_ok_and(|found| found == wanted);
    file.exists() && wanted.is_none_or(is_wanted)
}

fn digest(file: &Path) -> Result<String> {
    let found = fingerprint::of_file(file).map(|digest| digest.to_string());
    found.map_err(BuildError::file("read", file))
}

fn id_of(address: &Path) -> String {
    fingerprint::of_bytes(address.as_os_str().as_encoded_bytes()).id().to_string()
}

fn is_sha256(name: &str) -> bool {
    name.len() == 64 && is_commit(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_no_archive() {
        let addresses =
            ["https://example.org/spack.git", "/srv/spack", "https://example.org/v1.2.0.tar.gz"];
        assert_eq!(addresses.map(is_archive), [false, false, true]);
    }
}
