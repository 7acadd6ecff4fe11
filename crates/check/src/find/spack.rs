// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in a store of Spack, from its database.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::prefix::in_prefix;
use crate::{Installation, Origin};

/// The database, below a store.
const INDEX: &str = ".spack-db/index.json";

/// Packages that provide MPI.
const PROVIDERS: [&str; 10] = [
    "cray-mpich",
    "hpcx-mpi",
    "intel-mpi",
    "intel-oneapi-mpi",
    "mpich",
    "mpt",
    "mvapich",
    "mvapich-plus",
    "mvapich2",
    "openmpi",
];

/// A store whose database cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpackError {
    /// There is none, or it is closed.
    #[error("read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("understand `{path}`")]
    Understand {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Index {
    database: Database,
}

#[derive(Deserialize)]
struct Database {
    installs: BTreeMap<String, Install>,
}

#[derive(Deserialize)]
struct Install {
    spec: Option<Spec>,
    #[serde(default)]
    path: Option<PathBuf>,
    #[serde(default)]
    installed: bool,
}

#[derive(Deserialize)]
struct Spec {
    name: String,
    version: String,
}

/// Returns the MPI packages of a store, also those of the system that it knows.
pub fn in_spack_store(store: &Path) -> Result<Vec<Installation>, SpackError> {
    let path = store.join(INDEX);
    let text = fs::read(&path).map_err(|source| SpackError::Read {
        path: path.clone(),
        source,
    })?;
    let index: Index =
        serde_json::from_slice(&text).map_err(|source| SpackError::Understand { path, source })?;
    let mut found = Vec::new();
    for (hash, install) in index.database.installs {
        let (Some(spec), Some(prefix), true) = (install.spec, install.path, install.installed)
        else {
            continue;
        };
        if !PROVIDERS.contains(&spec.name.as_str()) {
            continue;
        }
        let hash: String = hash.chars().take(7).collect();
        let name = format!("{}@{}/{hash}", spec.name, spec.version);
        found.extend(in_prefix(&prefix).into_iter().map(|one| Installation {
            name: name.clone(),
            origin: Origin::Spack(name.clone()),
            ..one
        }));
    }
    Ok(found)
}
