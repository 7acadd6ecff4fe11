// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tries the MPI installations of a system and sorts them by what they can do.
//!
//! [`benchmark`] is the program that is run with each of them and what it says, [`judge`]
//! turns what was seen into classes with reasons.

#![forbid(unsafe_code)]

pub mod benchmark;
pub mod judge;
