// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a lock file of Spack says about the packages of a stack.
//!
//! Only what is requested here is read; the format is that of `spack.lock`, version 6
//! and later, whose `concrete_specs` are objects keyed by hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::program::Version;
use crate::{BuildError, Result};

/// The packages of a stack.
#[derive(Debug, Deserialize)]
pub(super) struct Lock {
    concrete_specs: BTreeMap<String, Package>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) arch: Architecture,
    #[serde(default)]
    pub(super) parameters: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
    /// There for packages of the system.
    #[serde(default)]
    pub(super) external: Option<serde::de::IgnoredAny>,
}

/// What it needs.
#[derive(Debug, Deserialize)]
struct Dependency {
    #[serde(default)]
    hash: String,
}

/// What it was built for.
#[derive(Debug, Deserialize)]
pub(super) struct Architecture {
    pub(super) platform: String,
    /// A name, or an object with one.
    pub(super) target: serde_json::Value,
}

/// Reads a lock file.
pub(super) fn read(path: &Path) -> Result<Lock> {
    let text = fs::read(path).map_err(BuildError::file("read", path))?;
    serde_json::from_slice(&text).map_err(BuildError::file("read", path))
}

impl Lock {
    /// Returns the packages that are installed, by their hashes.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Package)> {
        let all = self.concrete_specs.iter();
        let ours = all.filter(|(_, one)| one.external.is_none());
        ours.map(|(hash, one)| (hash.as_str(), one))
    }

    /// Returns what each hash stands for, as Spack calls it.
    pub(super) fn names(self) -> impl Iterator<Item = (String, String)> {
        let all = self.concrete_specs.into_iter();
        all.map(|(hash, one)| (hash, format!("{}@{}", one.name, one.version)))
    }

    /// Finds the packages of a name that are built, the newest version first, each with
    /// where it is below the root of a store.
    pub(super) fn built(&self, name: &str) -> Vec<(&Package, PathBuf)> {
        let all = self.concrete_specs.iter();
        let named = all.filter(|(_, one)| one.name == name && one.external.is_none());
        let mut found: Vec<_> =
            named.map(|(hash, one)| (one, PathBuf::from(one.prefix(hash)))).collect();
        found.sort_by_key(|(one, _)| std::cmp::Reverse(Version::parse(&one.version)));
        found
    }
}

impl Package {
    /// Returns the hashes of the packages that must be there before it.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().map(|one| one.hash.as_str())
    }

    /// As Spack calls it, with the languages that it has, if it is a compiler.
    pub(super) fn spec(&self) -> String {
        let languages = self
            .parameters
            .get("languages")
            .and_then(|installer_output| installer_output.as_array());
        let languages: Vec<_> =
            languages.into_iter().flatten().filter_map(|one| one.as_str()).collect();
        let spec = format!("{}@{}", self.name, self.version);
        if languages.is_empty() {
            return spec;
        }
        format!("{spec} languages='{}'", languages.join(","))
    }

    /// Where it is below the root of the store, as Spack arranges it by default.
    fn prefix(&self, hash: &str) -> String {
        let target = match &self.arch.target {
            serde_json::Value::String(name) => name,
            other => other.get("name").and_then(|name| name.as_str()).unwrap_or_default(),
        };
        format!("{}-{target}/{}-{}-{hash}", self.arch.platform, self.name, self.version)
    }
}
