// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of repositories and registries, found by label, package, and signature.
//!
//! [`list()`] searches the repositories of the user, [`find()`] searches a registry.

#![forbid(unsafe_code)]

mod cache;
mod list;
mod packages;
mod registry;
mod request;

pub use list::{Images, list};
pub use packages::{Package, Packages};
pub use registry::{FoundImage, find};
pub use request::SearchRequest;
