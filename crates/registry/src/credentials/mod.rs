// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the passwords of registries are found: token files, the files of Docker and Podman
//! and the helpers that those name, netrc.
//!
//! A password is never shown, put on a command line, or given to a host it is not meant for.
//! Errors name files, lines and programs, and never what is written in them. Which files
//! there are is the caller's knowledge.

mod helper;
mod login_file;
mod netrc;
mod read;
mod token_file;

use std::fmt;
use std::path::PathBuf;

use cabane_report::Result;

use login_file::Place;

/// A secret: it has no `Display`, and `Debug` shows dots.
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
    /// A token that is exchanged for others (`identitytoken` in Docker's file).
    Identity(Secret),
    /// A token that is sent as it is (`registrytoken` in Docker's file).
    Bearer(Secret),
}

impl Credential {
    /// Takes a name and a password.
    pub(super) fn password(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { username: username.into(), password: Secret::new(password) }
    }
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

impl CredentialSources {
    /// Finds what proves to a registry who asks, the first that fits.
    ///
    /// The host is as in an address, with its port if it has one; a login file may have
    /// another password for a part of the repositories there. Files that do not exist are
    /// passed over. What was stored for `https://` is not for an address without encryption. May run a
    /// helper, and so take up to half a minute.
    pub fn find(&self, host: &str, repository: &str, is_plain: bool) -> Result<Option<Credential>> {
        if let Some(credential) = &self.given {
            return Ok(Some(credential.clone()));
        }
        let place = Place { host, repository, is_plain };
        for path in &self.login_files {
            let found = login_file::find(path, &place, &self.program_directories)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        match &self.netrc {
            Some(path) => netrc::find(path, host),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LOGIN: &str =
        r#"{"auths": {"registry.example": {"username": "login", "password": "a"}}}"#;
    const NETRC: &str = "machine registry.example login netrc password b\n\
                         machine other.example login netrc password b\n";

    fn sources(directory: &std::path::Path) -> CredentialSources {
        fs::write(directory.join("auth.json"), LOGIN).unwrap();
        fs::write(directory.join("netrc"), NETRC).unwrap();
        CredentialSources {
            given: None,
            login_files: vec![directory.join("none.json"), directory.join("auth.json")],
            netrc: Some(directory.join("netrc")),
            program_directories: Vec::new(),
        }
    }

    fn name_for(sources: &CredentialSources, host: &str) -> Option<String> {
        match sources.find(host, "deploy/daint", false).unwrap()? {
            Credential::Password { username, .. } => Some(username),
            _ => None,
        }
    }

    #[test]
    fn what_the_user_names_is_taken_before_what_was_stored() {
        let directory = tempfile::tempdir().unwrap();
        let mut sources = sources(directory.path());
        sources.given = Some(Credential::password("given", "c"));
        assert_eq!(name_for(&sources, "registry.example").as_deref(), Some("given"));
    }

    #[test]
    fn a_login_is_taken_before_a_netrc() {
        let directory = tempfile::tempdir().unwrap();
        let name = name_for(&sources(directory.path()), "registry.example");
        assert_eq!(name.as_deref(), Some("login"));
    }

    #[test]
    fn a_netrc_is_read_without_a_login() {
        let directory = tempfile::tempdir().unwrap();
        let name = name_for(&sources(directory.path()), "other.example:5000");
        assert_eq!(name.as_deref(), Some("netrc"));
    }

    #[test]
    fn nothing_is_found_for_an_unknown_registry() {
        let directory = tempfile::tempdir().unwrap();
        let name = name_for(&sources(directory.path()), "third.example");
        assert_eq!(name, None);
    }

    #[test]
    fn files_that_are_not_there_are_no_error() {
        let sources = CredentialSources {
            login_files: vec!["/nonexistent/auth.json".into()],
            netrc: Some("/dev/null/netrc".into()),
            ..CredentialSources::default()
        };
        assert_eq!(name_for(&sources, "registry.example"), None);
    }

    #[test]
    fn what_is_printed_for_debugging_has_no_secret_in_it() {
        let all = [
            Credential::password("someone", "hunter2"),
            Credential::Identity(Secret::new("hunter2")),
            Credential::Bearer(Secret::new("hunter2")),
        ];
        assert!(!format!("{all:#?}").contains("hunter2"));
    }
}
