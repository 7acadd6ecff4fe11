// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Replaces an installation that comes from an archive by that of a newer release.
//!
//! [`plan()`] finds the archive: a file, or the newest one that the list of sums in a directory or below a URL
//! names. [`Plan::install`] checks it, unpacks it, and runs the installer in it, which replaces every file by
//! renaming. What a package manager installed is never touched.

#![forbid(unsafe_code)]

mod archive;
mod place;
mod plan;
mod sums;
mod version;

pub use plan::{Plan, plan};
pub use version::Version;
