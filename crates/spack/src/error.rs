// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a recipe and a system do not go together.

use cabane_recipe::SpackVersion;

/// Why nothing can be given to Spack.
///
/// Anyone who reads a recipe for its system sees all of this with its place; it
/// is found here when the two were read apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// Spack cannot build recipes any more.
    #[error("Spack {version} is too old to build the recipe")]
    OldSpack {
        /// Its version.
        version: SpackVersion,
    },
    /// The system does not have the MPI.
    #[error(
        "the environment `{environment}` needs the MPI `{mpi}`, which the system does not have"
    )]
    NoMpi {
        /// The environment.
        environment: String,
        /// The package of the MPI.
        mpi: String,
        /// What the system has.
        known: Vec<String>,
    },
    /// The system does not have a gcc.
    #[error("the system has no gcc")]
    NoGcc,
    /// A package repository has no place.
    #[error("the package repository `{name}` has no place")]
    NoPlace {
        /// Its name.
        name: String,
    },
}

impl LowerError {
    /// Says what to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OldSpack { .. } => {
                Some("`cabane recipe convert` writes the recipe for a newer Spack".to_owned())
            }
            Self::NoMpi { known, .. } if known.is_empty() => {
                Some("describe it below `mpi:` in network.yaml of the system".to_owned())
            }
            Self::NoMpi { known, .. } => Some(format!("the system has {}", known.join(", "))),
            Self::NoGcc => Some("describe it in packages.yaml of the system".to_owned()),
            Self::NoPlace { .. } => None,
        }
    }
}
