// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which images must be signed, by whom, and whether they are.
//!
//! [`check_at_pull`] decides for images of a registry, [`check_at_start`] for those that lie here
//! already.

#![forbid(unsafe_code)]

mod known_keys;
mod labels;
mod pull;
mod start;

pub use known_keys::{KnownKeys, SignatureVerdict};
pub use labels::check_label;
pub use pull::{Checked, Wanted, check_at_pull, remember, signing_key, wanted};
pub use start::{Candidate, Doubt, check_at_start};
