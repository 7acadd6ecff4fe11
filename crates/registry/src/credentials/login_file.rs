// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files that `docker login` and `podman login` write.
//!
//! ```text
//! {
//!   "auths": {
//!     "registry.example": {"auth": "<base64 of name:password>"},
//!     "registry.example:5000/deploy": {"username": "…", "password": "…"},
//!     "https://other.example/v1/": {"identitytoken": "…"},
//!     "third.example": {}                                    a helper has it
//!   },
//!   "credHelpers": {"fourth.example": "NAME"},
//!   "credsStore": "NAME"
//! }
//! ```
//!
//! A helper of its own comes before every other entry for a registry; then the
//! longest path that holds the repository; then the helper for all. An entry that cannot be
//! understood is an error for its own registry alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use cabane_label::{escape, shown};
use cabane_report::{Kind, Report, Result};
use serde::Deserialize;
use serde_json::Value;

use super::{Credential, Secret, helper, read};
use crate::container::DOCKER_HUB;

/// What a credential is for.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) host: &'a str,
    pub(super) repository: &'a str,
    /// Whether what is sent there is not encrypted.
    pub(super) is_plain: bool,
}

/// It is a list, or a value is a number.
const NO_OBJECT: &str = "it is not an object of texts";
const NO_BASE64: &str = "its `auth` is not base64 of a text";

/// Finds what a login file has for a place, itself or through a helper.
pub(super) fn find(
    path: &Path,
    place: &Place<'_>,
    program_directories: &[PathBuf],
) -> Result<Option<Credential>> {
    let Some(text) = read::text_if_there(path)? else {
        return Ok(None);
    };
    let file = LoginFile::parse(&text).map_err(|mistake| {
        let (path, line, column) = (shown(path), mistake.line(), mistake.column());
        let message = format!(
            "{path} is not a login file: line {line}, column {column} is not what is expected there"
        );
        Report::new(Kind::Failure, message).hinted(format!(
            "`python3 -m json.tool {path}` gives details, and shows the passwords in it"
        ))
    })?;
    for step in file.steps(place) {
        let found = match step {
            Step::Entry(key, entry) => credential_of(entry).map_err(|problem| {
                let (path, key) = (shown(path), escape(key));
                let message = format!("{path} has an entry for `{key}`, but {problem}");
                Report::new(Kind::Failure, message)
                    .hinted(format!("`podman login {key}` or `docker login {key}` writes it again"))
            })?,
            Step::Ask { helper, server, is_promised } => {
                ask(path, helper, program_directories, server, is_promised)?
            }
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn ask(
    path: &Path,
    helper: &str,
    program_directories: &[PathBuf],
    server: &str,
    is_promised: bool,
) -> Result<Option<Credential>> {
    let program = helper::program_named(helper).ok_or_else(|| {
        let (path, name) = (shown(path), escape(helper));
        let message = format!("{path} names the helper `{name}`, which cannot be the name of one");
        Report::new(Kind::Failure, message).hinted(
            "`credHelpers` and `credsStore` have what follows `docker-credential-` in the name of \
             a program"
                .to_owned(),
        )
    })?;
    match helper::find(&program, program_directories) {
        Some(program) => helper::ask(&program, server, helper::TIME_LIMIT),
        None if is_promised => {
            let (path, server) = (shown(path), escape(server));
            let message = format!(
                "{path} says that the program `{program}` has the password of {server}, but it is \
                 nowhere in PATH"
            );
            Err(Report::new(Kind::Failure, message).hinted(format!(
                "`type {program}` shows where it is; `--token PATH --username NAME` needs no helper"
            )))
        }
        // The file came from another machine, and no one logged in to this registry there.
        None => Ok(None),
    }
}

/// The parts of a login file that matter.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LoginFile {
    auths: Option<BTreeMap<String, Value>>,
    #[serde(rename = "credHelpers")]
    cred_helpers: Option<BTreeMap<String, String>>,
    #[serde(rename = "credsStore")]
    creds_store: Option<String>,
}

/// What to try for a place.
enum Step<'a> {
    /// An entry of the file, under its key.
    Entry(&'a str, &'a Value),
    /// A helper, for a server. The file may say that the helper has its password.
    Ask { helper: &'a str, server: &'a str, is_promised: bool },
}

impl LoginFile {
    /// Reads a file; an empty one says nothing.
    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text)
    }

    /// What to try for a place, the best first.
    fn steps<'a>(&'a self, place: &Place<'a>) -> Vec<Step<'a>> {
        let helpers = ranked(self.cred_helpers.as_ref(), place);
        let own_helper = helpers.first().map(|(_, name)| name.as_str());
        // A helper without a name says that this registry has none, not even that for all.
        let helper_for_all = match own_helper {
            Some(_) => None,
            None => self.creds_store.as_deref().filter(|name| !name.is_empty()),
        };
        let mut steps = Vec::new();
        if let Some(helper) = own_helper.filter(|name| !name.is_empty()) {
            steps.push(Step::Ask { helper, server: place.host, is_promised: true });
        }
        let entries = ranked(self.auths.as_ref(), place);
        for &(key, entry) in &entries {
            steps.push(Step::Entry(key, entry));
            if let Some(helper) = helper_for_all {
                steps.push(Step::Ask { helper, server: key, is_promised: true });
            }
        }
        if let (true, Some(helper)) = (entries.is_empty(), helper_for_all) {
            steps.push(Step::Ask { helper, server: place.host, is_promised: false });
        }
        steps
    }
}

/// The entries that are for a place, the nearest first.
fn ranked<'a, T>(
    entries: Option<&'a BTreeMap<String, T>>,
    place: &Place<'_>,
) -> Vec<(&'a str, &'a T)> {
    let entries = entries.into_iter().flatten();
    let mut fitting: Vec<_> = entries
        .filter_map(|(key, value)| Some((nearness(key, place)?, (key.as_str(), value))))
        .collect();
    fitting.sort_by_key(|&(nearness, _)| Reverse(nearness));
    fitting.into_iter().map(|(_, entry)| entry).collect()
}

/// How near a key is to a place, if it is for that place at all: how long its path is, and
/// whether it is a plain name.
fn nearness(key: &str, place: &Place<'_>) -> Option<(usize, bool)> {
    let (is_plain, name) = match key.split_once("://") {
        None => (true, key),
        Some(("https", _)) if place.is_plain => return None,
        Some(("http" | "https", name)) => (false, name),
        Some(_) => return None,
    };
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    // `docker login` and `podman login` call Docker Hub by other names than that of its host.
    let is_docker_hub = place.host == DOCKER_HUB && matches!(host, "docker.io" | "index.docker.io");
    if !host.eq_ignore_ascii_case(place.host) && !is_docker_hub {
        return None;
    }
    // The path of an address is that of the interface, as in `https://registry.example/v1/`.
    let path = if is_plain { path.trim_end_matches('/') } else { "" };
    is_within(place.repository, path).then_some((path.len(), is_plain))
}

fn is_within(repository: &str, path: &str) -> bool {
    let rest = repository.strip_prefix(path);
    path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What can be in an entry. Empty texts are as good as none.
#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// Takes the credential out of an entry, if there is one in it.
fn credential_of(entry: &Value) -> Result<Option<Credential>, &'static str> {
    if entry.is_null() {
        return Ok(None);
    }
    if !entry.is_object() {
        return Err(NO_OBJECT);
    }
    let entry = Entry::deserialize(entry).map_err(|_| NO_OBJECT)?;
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    if let Some(token) = some(entry.registrytoken) {
        return Ok(Some(Credential::Bearer(Secret::new(token))));
    }
    if let Some(token) = some(entry.identitytoken) {
        return Ok(Some(Credential::Identity(Secret::new(token))));
    }
    if let Some(auth) = some(entry.auth) {
        return decode(&auth).map(Some);
    }
    let pair = some(entry.username).zip(some(entry.password));
    Ok(pair.map(|(username, password)| Credential::password(username, password)))
}

/// Reads `auth`, also if it was made by hand, with padding and blanks of all kinds.
fn decode(auth: &str) -> Result<Credential, &'static str> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::RequireNone)
            .with_decode_allow_trailing_bits(true),
    );
    let letters: String = auth
        .chars()
        .filter(|letter| !letter.is_ascii_whitespace())
        .map(|letter| match letter {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    let bytes = LENIENT.decode(letters.trim_end_matches('=')).map_err(|_| NO_BASE64)?;
    let text = String::from_utf8(bytes).map_err(|_| NO_BASE64)?;
    let (username, password) =
        text.split_once(':').ok_or("its `auth` is not a name, a colon, and a password")?;
    // Old versions of Docker fill the end with zeros.
    Ok(Credential::password(username, password.trim_end_matches('\0')))
}

#[cfg(test)]
mod tests;
