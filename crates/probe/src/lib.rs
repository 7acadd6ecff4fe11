// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looks at a machine and describes it as a system configuration.
//!
//! [`probe()`] looks for what builds take from the system and returns it as data;
//! [`SystemText`] says the same in the files of a system configuration, and
//! [`SystemText::save`] puts them into a directory. What is looked for, and how a thing
//! is called, follows what Spack finds by itself: recipes depend on those names.
//!
//! [`try_out()`] asks a Spack whether it takes what was found.
//!
//! Programs run in an empty environment, with a limit on their time and output,
//! and their output is parsed with suspicion: nothing but versions, names from
//! fixed lists and paths that were there beforehand comes out of it.

#![forbid(unsafe_code)]

mod ask;
mod compilers;
mod directories;
mod fabric;
mod files;
mod found;
mod gpu;
mod machine;
mod mpi;
mod mpi_text;
mod network;
mod probe;
mod processor;
mod python;
mod rules;
mod slurm;
mod tools;
mod try_out;
mod turns;
mod version;

pub use files::{SaveError, SystemText};
pub use found::{CompilerPaths, Device, DeviceKind, External, Found, Section};
pub use machine::Limits;
pub use machine::Note;
pub use probe::{Request, probe};
pub use processor::{Processor, TargetChoice, TargetError};
pub use rules::{PackageRules, Rule};
pub use try_out::{Tried, TryError, TryWith, try_out};
pub use version::Version;
