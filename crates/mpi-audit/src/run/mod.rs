// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tries installations: compiles the program, starts its ranks, listens.

mod audit;
mod floor;
mod leftovers;
mod message;
mod node;
mod others;
mod runner;
mod settings;
mod start;
mod strange_library;

pub use audit::{Program, Settings, Tried, audit};
pub use message::first_meaningful;
pub use node::allowed_processors;
pub use others::{OtherBenchmark, other_benchmarks};
pub use runner::{Ended, Runner};
pub use settings::{Advice, OtherSettings};
pub use start::{Manner, PmiTypes, launcher_variables};
