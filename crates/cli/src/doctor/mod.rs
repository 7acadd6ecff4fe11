// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether environments can be mounted here, and what stands in the way.
//!
//! [`look`] asks the system and changes nothing; whatever could block is asked by a
//! child with a time limit. What it sees are [`facts`], plain data. [`judge`] turns
//! facts into [`finding`]s and touches nothing, so that every state of a machine can
//! be tested without having one. `commands/doctor.rs` prints.

pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod judge;
pub(crate) mod look;
pub(crate) mod probe;
