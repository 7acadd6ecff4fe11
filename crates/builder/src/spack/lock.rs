// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a lock file of Spack says about the packages of a stack.
//!
//! Only what is requested here is read; the format is that of `spack.lock`, versions 6
//! and 7, whose `concrete_specs` are objects keyed by hash.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_label::shown;
use cabane_spack::{LOCK_VERSIONS, Spec};
use serde::Deserialize;

use super::ask::too_new;
use crate::program::Version;
use crate::{BuildError, Result, disk};

#[derive(Deserialize)]
struct Lock {
    concrete_specs: BTreeMap<String, Spec>,
}

/// The head of a lock file alone.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "lockfile-version")]
    version: u32,
}

/// Reads the packages of a lock file, by their hashes.
///
/// # Errors
///
/// It cannot be read, or is in a format that is not known.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Spec>> {
    let text = disk::read(path)?;
    let head: Head = serde_json::from_slice(&text).map_err(BuildError::file("read", path))?;
    let version = head.meta.version;
    if !LOCK_VERSIONS.contains(&version) {
        let (oldest, newest) = (LOCK_VERSIONS.start(), LOCK_VERSIONS.end());
        let message = format!(
            "{} is a lock file of version {version}, but this version of cabane reads only {oldest} to {newest}",
            shown(path)
        );
        return Err(too_new(message));
    }
    let lock: Lock = serde_json::from_slice(&text).map_err(BuildError::file("read", path))?;
    Ok(lock.concrete_specs)
}

/// Finds the packages of a name that are built, the newest version first, each with its
/// hash.
pub(super) fn built(path: &Path, name: &str) -> Result<Vec<(String, Spec)>> {
    let all = read(path)?.into_iter();
    let named = all.filter(|(_, one)| one.name == name && one.external.is_none());
    let mut found: Vec<_> = named.collect();
    found.sort_by_key(|(_, one)| std::cmp::Reverse(Version::parse(&one.version)));
    Ok(found)
}

/// As Spack calls a package, with the languages that it has, if it is a compiler.
pub(super) fn spec(package: &Spec) -> String {
    let languages = package.parameters.get("languages").and_then(|value| value.as_array());
    let languages: Vec<_> =
        languages.into_iter().flatten().filter_map(|one| one.as_str()).collect();
    if languages.is_empty() {
        return package.id();
    }
    format!("{} languages='{}'", package.id(), languages.join(","))
}
