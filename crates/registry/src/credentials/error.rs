// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a credential could not be had.
//!
//! The JSON parser may quote a password in its message, and so may a helper: the messages here
//! have a place, and no text of others but the first line of a helper's complaint.

use std::io;
use std::path::Path;

use cabane_label::shown;

/// Why a credential could not be read, and what to type to get further.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CredentialError {
    message: String,
    hint: Option<String>,
    source: Option<io::Error>,
}

impl CredentialError {
    pub(super) fn new(message: String) -> Self {
        Self { message, hint: None, source: None }
    }

    #[must_use]
    pub(super) fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    #[must_use]
    pub(super) fn because(self, source: io::Error) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Returns what the user may type to get further, if there is such a thing.
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }

    /// Returns a function that turns an answer of the file system into an error.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| {
            let error = Self::new(format!("cannot read {}", shown(path)));
            let error = match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    error.hinted(format!("`ls -ld {}` shows who may", shown(path)))
                }
                _ => error,
            };
            error.because(source)
        }
    }
}
