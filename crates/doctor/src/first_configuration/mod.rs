// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A first configuration of a site: the settings, and the policy of the helper, from what the machine has.

mod found;
mod text;

pub use found::MOUNT_POINTS;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_report::{IoContext, Kind, Report, Result};

/// The names of the files.
const CONFIG: &str = "config.toml";
const POLICY: &str = "mount.policy";

/// The files with which a site begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstConfiguration {
    /// The text of `config.toml`.
    pub config: String,
    /// The text of `mount.policy`.
    pub policy: String,
    /// Whether the machine has Slurm.
    pub has_slurm: bool,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It was written.
    Written(PathBuf),
    /// It was there, and stays as it is.
    Kept(PathBuf),
}

impl FirstConfiguration {
    /// Looks at this machine, and writes a configuration for it. Takes the variables of the caller, and the repository
    /// of the site, if one was chosen.
    #[must_use]
    pub fn of_machine(calling: &BTreeMap<OsString, OsString>, chosen: Option<&Path>) -> Self {
        let found = found::look(calling, chosen);
        Self {
            config: text::config(&found),
            policy: text::policy(&found),
            has_slurm: found.slurm.is_some(),
        }
    }

    /// Whether the settings in a directory name a repository.
    #[must_use]
    pub fn is_named_in(directory: &Path, repository: &Path) -> bool {
        let settings = fs::read_to_string(directory.join(CONFIG)).unwrap_or_default();
        settings.contains(&text::quoted(&repository.display().to_string()))
    }

    /// Writes both files into a directory like [`Self::save`].
    ///
    /// # Errors
    ///
    /// Both files are there, or one cannot be written.
    pub fn save_new(&self, directory: &Path) -> Result<Vec<Saved>> {
        let saved = self.save(directory)?;
        if saved.iter().all(|one| matches!(one, Saved::Kept(_))) {
            let message = format!("{} has {CONFIG} and {POLICY} already", shown(directory));
            let hint = "without `--output`, both are printed: compare them with your files";
            return Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
        }
        Ok(saved)
    }

    /// Writes both files into a directory, which is made if it is missing. A file that is there stays as it is.
    ///
    /// # Errors
    ///
    /// One cannot be written.
    pub fn save(&self, directory: &Path) -> Result<Vec<Saved>> {
        fs::create_dir_all(directory)
            .or_failed(|| format!("make the directory {}", directory.display()))?;
        let mut saved = Vec::new();
        for (name, text) in [(CONFIG, &self.config), (POLICY, &self.policy)] {
            let path = directory.join(name);
            saved.push(match write_new(&path, text) {
                Ok(()) => Saved::Written(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Saved::Kept(path),
                Err(error) => Err(error).or_failed(|| format!("write {}", path.display()))?,
            });
        }
        Ok(saved)
    }
}

/// Writes a file that is not there, for everybody to read.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
