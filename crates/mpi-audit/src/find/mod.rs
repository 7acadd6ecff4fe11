// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looks for MPI installations.
//!
//! Directories are only looked at. Modules are loaded, because nothing else knows what they
//! set, but only those that speak of MPI; see [`modules()`].

mod inside;
mod modules;
mod prefix;
mod requested;
mod spack;

pub use inside::inside;
pub use modules::{ModuleTool, modules};
pub use prefix::{in_prefix, usual_places};
pub use requested::{FindRequest, find, variables_of_run};
pub use spack::in_spack_store;

use crate::Installation;

/// Leaves out what is the same under another name; the first one stays.
pub fn without_doubles(all: Vec<Installation>) -> Vec<Installation> {
    let mut different: Vec<Installation> = Vec::new();
    for one in all {
        if !different.iter().any(|other| other.is_same_as(&one)) {
            different.push(one);
        }
    }
    different
}
