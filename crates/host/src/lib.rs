// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What programs need of the machine they run on, and whether this one has it.
//!
//! [`needed_glibc()`] reads from a program or a library which C library it was linked
//! with, [`older_glibc()`] whether this machine has it, and [`missing_features()`] which
//! features its processor lacks. All of it is quick enough for every start.

#![forbid(unsafe_code)]

mod features;
mod glibc;
mod versions;

pub use features::missing_features;
pub use glibc::{GlibcVersion, GlibcVersionError, glibc, older_glibc};
pub use versions::{needed_glibc, number_under};
