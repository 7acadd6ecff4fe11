// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Checks whether environments can be mounted here, and finds what prevents it.
//!
//! `look` asks the system and changes nothing; whatever could block is done by a child with a time
//! limit. What it sees are `facts`, plain data. `judge` turns facts into findings and touches
//! nothing, so that every state of a machine can be tested without having one. [`diagnose()`] does
//! all of it. [`FirstConfiguration`] writes what it sees as a configuration to begin with.

#![forbid(unsafe_code)]

mod diagnose;
mod facts;
mod finding;
mod first_configuration;
mod judge;
mod look;
mod probe;

pub use diagnose::diagnose;
pub use finding::{Choice, Diagnosis, Finding, Group, State, Way};
pub use first_configuration::{FirstConfiguration, MOUNT_POINTS, Saved};
