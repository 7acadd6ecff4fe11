// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Fuzz targets for everything that reads input from outside.
//!
//! A target is a plain function from bytes to a [`Verdict`]. Each program in `fuzz_targets/`
//! gives one of them to libFuzzer.

#![forbid(unsafe_code)]

pub mod targets;

pub use targets::Verdict;

/// Gives an input to a target, and panics if something that must hold does not.
///
/// # Panics
///
/// With what does not hold; libFuzzer keeps the input then.
pub fn feed(target: fn(&[u8]) -> Verdict, input: &[u8]) {
    if let Verdict::Wrong(reason) = target(input) {
        panic!("{reason}");
    }
}
