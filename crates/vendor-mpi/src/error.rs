// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why there is no tarball or no package.

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::Diagnostic;

use crate::ArchiveError;

/// Why there is no tarball or no package.
#[derive(Debug, thiserror::Error)]
pub enum VendorError {
    /// A package is not where it was looked for.
    #[error("cannot find the package `{}` in `{}`", escape(file), shown(directory))]
    NoPackage {
        /// Its name.
        file: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// Where the manifest says that it comes from.
        url: Option<String>,
    },
    /// A package is not the one that the manifest means.
    #[error("`{}` is another file than the manifest means: its sha256 is {found}", shown(path))]
    OtherPackage {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
    },
    /// A package cannot be read, or is refused.
    #[error("cannot take anything from `{}`", shown(path))]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ArchiveError,
    },
    /// The manifest names what is not there, or does not say enough.
    #[error("the manifest does not fit the packages")]
    Manifest {
        /// What is wrong, in the order of the file.
        problems: Vec<Diagnostic>,
    },
    /// The record of an earlier run is damaged.
    #[error("`{}` is not what was written there", shown(path))]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The operating system refuses something.
    #[error("cannot {action} `{}`", shown(path))]
    Io {
        /// What was done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl VendorError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPackage { url: Some(url), .. } => {
                Some(format!("it comes from {}", escape(url)))
            }
            Self::NoPackage { .. } => {
                Some("`--packages DIR` names the directory where the packages are".to_owned())
            }
            Self::OtherPackage { .. } => {
                Some("get the package again; if it is a newer one, change the manifest".to_owned())
            }
            Self::Record { path, .. } => Some(format!("remove it: rm {}", shown(path))),
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
