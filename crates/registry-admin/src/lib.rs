// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What administrators do with a registry: [`usage()`] says what takes the space, and [`plan_gc`] which
//! labels nobody needs any more.

#![forbid(unsafe_code)]

mod gc;
mod usage;

pub use gc::{Fate, Limits, Plan, Verdict, execute_gc, plan_gc};
pub use usage::{By, Group, Usage, usage};
