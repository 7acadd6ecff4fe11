// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How slow the machine is, for time limits and for how much is tried.
//!
//! An emulator without help of the processor is ten times slower than the machine it runs on.
//! Nothing that a test asserts may depend on that; what it waits for, and how often it tries, may.

use std::time::Duration;

/// The variable that says how many times slower than usual this machine is.
pub(crate) const VARIABLE: &str = "CABANE_TEST_SLOWNESS";

/// How many times slower than usual this machine is: 1 unless `CABANE_TEST_SLOWNESS` says more.
///
/// # Panics
///
/// If the variable is not a number from 1 on.
pub fn slowness() -> u32 {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return 1;
    };
    let number = value.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|number| *number > 0)
        .unwrap_or_else(|| panic!("{VARIABLE} is no number from 1 on: {}", value.display()))
}

/// How long something may take here that may take so long on a usual machine.
pub fn time_limit(usual: Duration) -> Duration {
    usual * slowness()
}

/// How many of these are tried here in about the time that a usual machine takes for all; one at
/// least.
pub fn fewer(usual: usize) -> usize {
    (usual / slowness() as usize).max(1)
}
