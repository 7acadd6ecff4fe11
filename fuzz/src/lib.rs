// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Damaged input for everything that reads text from outside.
//!
//! The targets are plain functions from bytes to a verdict; the mutator makes
//! bytes out of seeds, the same for the same seed; the campaign brings them
//! together and notices panics and slowness. Nothing here measures coverage.

pub mod campaign;
mod mutator;
mod random;
pub mod targets;
