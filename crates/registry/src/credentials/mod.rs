// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the passwords of registries are found: token files, the files of Docker and Podman
//! and the helpers that those name, netrc.
//!
//! A password is never shown, put on a command line, or given to a host it is not meant for.

use std::fmt;
use std::path::PathBuf;

/// A text that nobody shall see: it has no `Display`, and `Debug` shows dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text for a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for sending it to whom it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What proves to a registry who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password, or a token that is used like one.
    Password {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A token with which others are got (`identitytoken` in Docker's file).
    Identity(Secret),
    /// A token that is sent as it is (`registrytoken` in Docker's file).
    Bearer(Secret),
}

/// Where to look, the first place first.
#[derive(Clone, Debug, Default)]
pub struct CredentialSources {
    /// What the user named.
    pub given: Option<Credential>,
    /// Files as `docker login` and `podman login` write them.
    pub login_files: Vec<PathBuf>,
    /// A netrc file.
    pub netrc: Option<PathBuf>,
    /// Where the programs `docker-credential-…` are looked for, as in `PATH`.
    pub program_directories: Vec<PathBuf>,
}

/// Why a credential could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {}
