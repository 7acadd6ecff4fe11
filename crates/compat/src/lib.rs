// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What programs need of the machine they run on, and whether this one has it.
//!
//! [`needed_glibc()`] reads from a program or a library which C library it was linked
//! with, [`older_glibc()`] whether this machine has it, and [`missing_features()`] which
//! features its processor lacks. [`choose()`] says which of several builds of an image suits
//! it. All of it is quick enough for every start. [`Binary`] tells more about one file,
//! [`Linkage`] what it needs of others and offers to them, and [`library_cache`] where the loader of
//! a machine finds libraries.

#![forbid(unsafe_code)]

mod architecture;
mod binary;
mod choice;
mod features;
mod glibc;
pub mod library_cache;
mod linkage;
mod presence;
mod versions;

pub use architecture::other_architectures;
pub use binary::{Binary, Kind, Links, SymbolSeen, VersionNeed};
pub use choice::{Build, Choice, Lack, NoChoice, Reason, choose, named_architecture, parse_order};
pub use features::{is_known_feature, missing_features, present_features};
pub use glibc::{GlibcVersion, GlibcVersionError, glibc, older_glibc};
pub use linkage::Linkage;
pub use presence::{HostLibraries, LibraryLack};
pub use versions::{needed_glibc, number_under};
