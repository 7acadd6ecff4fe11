// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images a change of the host breaks, and why.
//!
//! ```text
//! Change ───┐
//! HostFacts ┼─▶ judge, a line of needs at a time ──▶ ImageImpact: verdict, chains of reasons
//! Catalogue ┘
//! ```
//!
//! [`HostFacts`] are what a host has: read here, or on a node of the next generation. A [`Change`] is
//! one of many things that can happen to a host or to a package. [`assess()`] judges all images of a
//! catalogue, [`check_here()`] one image for this host. Images share most lines of their needs, and each
//! line is judged once.

#![forbid(unsafe_code)]

mod assess;
mod change;
mod collect;
mod facts;
mod here;
mod judge;
mod numbers;
mod verdict;

pub use assess::{Assessment, assess, on_host};
pub use change::Change;
pub use collect::collect;
pub use facts::{HostFacts, HostGpu, HostLibrary, HostPackage};
pub use here::{Here, check_here};
pub use verdict::{ImageImpact, Reason, Verdict};
