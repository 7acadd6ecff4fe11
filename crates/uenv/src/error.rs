// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong with a repository of uenv as a whole. What is wrong with one image is a
//! [`crate::Corruption`].

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_report::{Kind, Report};

/// An error of a repository of uenv.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such repository at this path.
    #[error("{} is no repository of uenv: it has no `index.db`", shown(.path))]
    NotARepository {
        /// Where one was expected.
        path: PathBuf,
    },
    /// The database is damaged, or none.
    #[error("the database {} cannot be read", shown(.path))]
    Database {
        /// The file.
        path: PathBuf,
        /// The answer of SQLite.
        source: rusqlite::Error,
    },
    /// The database is one, but not of uenv.
    #[error("the database {} has no {what}, as those of uenv have", shown(.path))]
    OtherDatabase {
        /// The file.
        path: PathBuf,
        /// What is not there.
        what: String,
    },
    /// Someone writes to the database without end.
    #[error("the database {} changes while it is read", shown(.path))]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused something.
    #[error("cannot {action} {}", shown(.path))]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
    /// The repository into which images are brought.
    #[error(transparent)]
    Target(#[from] cabane_repository::Error),
}

impl Error {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotARepository { path } => {
                Some(format!("`ls {}` shows what is there", shown(path)))
            }
            Self::Database { path, .. } => Some(format!(
                "`sqlite3 {} 'PRAGMA integrity_check'` shows what is wrong; `cabane image add` adds \
                 single images",
                shown(path)
            )),
            Self::Changing { .. } => {
                Some("try again when no image is being pulled with uenv".to_owned())
            }
            Self::Io { source, path, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("`ls -ld {}` shows who may", shown(path)))
            }
            Self::Target(error) => error.hint(),
            Self::OtherDatabase { .. } | Self::Io { .. } => None,
        }
    }

    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        match error {
            Error::Target(error) => error.into(),
            error => {
                let hint = error.hint();
                Self::new(Kind::Repository, error).hinted(hint)
            }
        }
    }
}
