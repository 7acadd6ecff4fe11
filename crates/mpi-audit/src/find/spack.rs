// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in a store of Spack, from its database.

use std::fs;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
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

/// Returns the MPI packages of a store, also those of the system that it knows.
///
/// # Errors
///
/// Its database cannot be read.
pub fn in_spack_store(store: &Path) -> Result<Vec<Installation>> {
    let path = store.join(DATABASE);
    let what = |action| format!("cannot {action} `{}`", shown(&path));
    let text =
        fs::read(&path).map_err(|source| Report::caused(Kind::BadInput, what("read"), source))?;
    let all =
        installs(&text).map_err(|source| Report::caused(Kind::BadInput, what("parse"), source))?;
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
