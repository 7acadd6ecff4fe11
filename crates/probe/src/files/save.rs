// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting the files into a directory: each is whole or not there, and what a person
//! has changed stays.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{SystemText, sum};

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It was changed by a person.
    #[error("`{}` was changed by hand", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or its directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl SaveError {
    /// Returns what can be typed.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let Self::Changed { .. } = self else {
            return None;
        };
        Some(
            "compare it with the output without --output; `--force` replaces it, and another \
             directory leaves it alone"
                .to_owned(),
        )
    }
}

impl SystemText {
    /// Puts the files into a directory, which is made if it is not there, and returns
    /// their paths.
    ///
    /// Nothing is written unless everything may be. Each file appears by one rename,
    /// after its content is on disk.
    ///
    /// # Errors
    ///
    /// A file that was changed by hand, unless `force`; what the operating system says.
    pub fn save(&self, directory: &Path, force: bool) -> Result<Vec<PathBuf>, SaveError> {
        let mpi = self.mpi.iter().map(|text| ("mpi.toml", text));
        let others = [("network.yaml", &self.network), ("packages.yaml", &self.packages)];
        let files: Vec<(PathBuf, &String)> =
            mpi.chain(others).map(|(name, text)| (directory.join(name), text)).collect();
        for (path, _) in files.iter().filter(|_| !force) {
            if !may_replace(path).map_err(|source| failed(path, source))? {
                return Err(SaveError::Changed { path: path.clone() });
            }
        }
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        for (path, text) in &files {
            write(directory, path, text).map_err(|source| failed(path, source))?;
        }
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| failed(directory, source))?;
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}

fn failed(path: &Path, source: io::Error) -> SaveError {
    let path = path.to_owned();
    SaveError::Write { path, source }
}

/// Larger files are none of ours.
const LARGEST: u64 = 4 << 20;

fn may_replace(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        other => other?,
    };
    // A link was made by a person: sites share the files of several systems like that.
    if !metadata.is_file() {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).is_ok_and(|text| sum::is_untouched(&text)))
}

fn write(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".cabane-probe-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
