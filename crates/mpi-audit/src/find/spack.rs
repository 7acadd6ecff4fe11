// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in a store of Spack, from its database.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabane_spack::{DATABASE, installs};

use super::prefix::in_prefix;
use crate::{Installation, Origin};

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

/// Returns the MPI packages of a store, also those of the system that it knows.
pub fn in_spack_store(store: &Path) -> Result<Vec<Installation>, SpackError> {
    let path = store.join(DATABASE);
    let text = fs::read(&path).map_err(|source| SpackError::Read { path: path.clone(), source })?;
    let all = installs(&text).map_err(|source| SpackError::Understand { path, source })?;
    let mut found = Vec::new();
    for (hash, install) in all {
        let (Some(spec), Some(prefix)) = (install.spec, install.path) else {
            continue;
        };
        if !PROVIDERS.contains(&spec.name.as_str()) {
            continue;
        }
        let hash: String = hash.chars().take(7).collect();
        let name = format!("{}@{}/{hash}", spec.name, spec.version);
        found.extend(in_prefix(Path::new(&prefix)).into_iter().map(|one| Installation {
            name: name.clone(),
            origin: Origin::Spack(name.clone()),
            ..one
        }));
    }
    Ok(found)
}
