// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was found as the files of a system configuration.
//!
//! ```text
//! DIR/
//! ├── packages.yaml    the processor, compilers, tools, Slurm, GPU software, verbs
//! ├── network.yaml     the MPIs that recipes can name, and the libraries below them
//! └── mpi.toml         the MPIs that can take the place of others, for the configuration of Cabane
//! ```
//!
//! Every file begins with a sum of what follows, so that a later change by
//! a person is detected.

mod network;
mod packages;
mod save;
mod sum;
mod yaml;

pub use save::SaveError;

use crate::found::Found;

/// The files of a system configuration, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemText {
    /// `packages.yaml`.
    pub packages: String,
    /// `network.yaml`.
    pub network: String,
    /// `mpi.toml`, if there is something to say in it.
    pub mpi: Option<String>,
}

impl SystemText {
    /// Writes what was found. The same machine gives the same bytes.
    #[must_use]
    pub fn of(found: &Found) -> Self {
        Self {
            packages: sum::signed("What Spack takes from this system.", &packages::text(found)),
            network: sum::signed("The fabric of this system, and its MPIs.", &network::text(found)),
            mpi: None,
        }
    }

    /// Adds `mpi.toml`, whose lines someone else has found out.
    #[must_use]
    pub fn with_mpi(self, lines: &str) -> Self {
        let title = "MPIs of this system that can take the place of others.";
        Self { mpi: Some(sum::signed(title, lines)), ..self }
    }
}
