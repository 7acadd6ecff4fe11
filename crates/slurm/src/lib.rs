// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane-slurm.so`: the images of a job, on every node before its first task.
//!
//! Slurm loads this object into four programs. In `srun`, `sbatch`, and `salloc` ([`submit`])
//! the `cabane` command finds out which images and variables are meant, as the user. In
//! `slurmstepd` ([`node`]) the images are mounted, once for each step on each node, as root;
//! what was mounted can be recorded ([`record`]), and failures of many nodes are reported as one
//! ([`failures`]).
//! [`dispatch`] tells the programs from each other; [`ffi`] is the border to Slurm, with all
//! that is unsafe. `docs/design/0009-slurm.md` has the reasons.

// What runs as root does not panic. Its tests may.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]
#![deny(unsafe_code)]
// What calls them is Slurm, through the border, and that cannot be linked without Slurm.
#![cfg_attr(test, expect(dead_code, reason = "the border is left out of unit tests"))]

mod abort_step;
mod builds;
mod devices;
mod dispatch;
mod failures;
#[cfg(not(test))]
mod ffi;
mod hints;
mod node;
mod options;
mod query;
mod ranks;
mod record;
mod release;
mod spank;
mod submit;
mod substitute;
