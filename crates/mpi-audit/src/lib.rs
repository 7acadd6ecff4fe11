// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tries the MPI installations of a system and sorts them by what they can do.
//!
//! [`audit`] is the whole: [`find`] looks for them, [`benchmark`] is the program that is run with each and what it
//! says, [`run`] compiles, starts and listens, and [`judge`] turns what was seen into classes
//! with reasons. [`report`] makes a page of it.

#![forbid(unsafe_code)]

pub mod audit;
pub mod benchmark;
pub mod find;
mod installation;
pub mod judge;
mod kept_files;
pub mod report;
pub mod run;

pub use installation::{Installation, Origin};
