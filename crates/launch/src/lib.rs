// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From an environment and a command to the process that becomes the command.
//!
//! A [`LaunchPlan`] becomes a [`Launch`], which becomes the command. A [`Swap`] is the same for a
//! command that gets another MPI.

#![forbid(unsafe_code)]

mod launch;
mod plan;
mod shell;
mod swap;

pub use launch::Launch;
pub use plan::LaunchPlan;
pub use shell::ShellSettings;
pub use swap::{Swap, SwapRequest, Swapping};
