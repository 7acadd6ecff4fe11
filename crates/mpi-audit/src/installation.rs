// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An MPI installation: what compiles for it, what starts its ranks, and how to get there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

/// Where an installation was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "kebab-case")]
pub enum Origin {
    /// In a directory with `bin` and `lib`, also one of Python's environments.
    Prefix(PathBuf),
    /// A module, as one would load it.
    Module(String),
    /// A package in a store of Spack.
    Spack(String),
    /// An image.
    Image(String),
}

/// An MPI library with the programs that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// A short name that tells it from the others.
    pub name: String,
    /// Where it was found.
    pub origin: Origin,
    /// What compiles C for it.
    pub wrapper: Option<PathBuf>,
    /// What starts ranks.
    pub launcher: Option<PathBuf>,
    /// The directory of its library, where it is known.
    pub library: Option<PathBuf>,
    /// The name by which programs ask for the library, such as `libmpi.so.12`.
    pub soname: Option<String>,
    /// What has to be in the environment.
    pub variables: BTreeMap<String, String>,
    /// The arguments before each command.
    pub enter: Vec<OsString>,
}

impl Installation {
    /// An installation with nothing in it yet.
    pub fn new(name: impl Into<String>, origin: Origin) -> Self {
        Self {
            name: name.into(),
            origin,
            wrapper: None,
            launcher: None,
            library: None,
            soname: None,
            variables: BTreeMap::new(),
            enter: Vec::new(),
        }
    }

    /// Whether both start and compile with the same programs and in the same environment.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let real = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
        };
        self.enter == other.enter
            && self.variables == other.variables
            && real(&self.wrapper) == real(&other.wrapper)
            && real(&self.launcher) == real(&other.launcher)
    }
}
