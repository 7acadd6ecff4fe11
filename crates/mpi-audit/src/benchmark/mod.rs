// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The program that is run with each library, and what it says.
//!
//! Its text travels in this crate, and its own comment tells how to start it. A run may
//! end anywhere, and a wrong launcher starts several programs that all write: all
//! output is kept, and nothing is expected to follow.

mod output;

pub use output::{BenchmarkOutput, Figure, Kind, NodeType, Place, Trips};

/// The text of the program, in C.
pub const PROGRAM: &str = include_str!("program.c");

/// How the program ends when the number of ranks is not the requested one.
pub const OTHER_SIZE: i32 = 3;

/// How the program ends when it runs longer than it may.
pub const TOO_LATE: i32 = 4;
