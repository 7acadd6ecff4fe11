// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Child processes, and what the kernel tells about processes.
//!
//! [`child`] prepares a process before it starts a program, [`as_user`] runs a program as
//! another user, [`confine`] takes rights away before commands of somebody else run, [`output`] runs one within limits, [`open_as`] opens files as another user, [`alone`] starts one that
//! nothing of this process reaches,
//! [`process_namespace`] makes sure that none outlives the program, [`Scratch`] is a directory that
//! does not either, [`lease`] tells whether a file is open on this host, and [`installation`] how a missing
//! program is installed. The crate holds no policy.
//!
//! The set-uid helper starts no processes, so nothing of this is linked into it.

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

pub mod alone;
pub mod as_user;
pub mod child;
pub mod confine;
mod copy;
pub mod installation;
pub mod lease;
pub mod open_as;
pub mod output;
pub mod process_namespace;
mod scratch;

pub use scratch::Scratch;
