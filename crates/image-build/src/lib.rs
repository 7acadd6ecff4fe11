// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a recipe to an image, with the settings of the site and the user.
//!
//! [`plan_build`] makes a plan of a recipe, which `cabane_builder` carries out. [`add_built`] and
//! [`write_built`] put the image where it belongs, and [`Signer`] says from what it was
//! built, or [`provenance()`] where it is signed later. [`look_up`] says what the name of a base means
//! now. [`lock_request`] is for the lock file of a recipe. [`package_keys()`] reads the keys for packages of build caches.

#![forbid(unsafe_code)]

mod bases;
mod containers;
mod package_keys;
mod provenance;
mod request;
mod result;

pub use bases::look_up;
pub use package_keys::{package_keys, package_signer};
pub use provenance::{SignedBuild, Signer, provenance};
pub use request::{BuildOptions, PlannedBuild, lock_request, plan_build, worker_request};
pub use result::{add_built, write_built};
