// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Attacks on the set-uid helper, by an ordinary user, on the real kernel.
//!
//! Each must fail to get through, and leave nothing behind: no mount, loop device,
//! process or lock. Where it is cheap, the same test shows the harmless case that
//! works. `arena.rs` says where they take place, `docs/design/0005-the-helper.md` what
//! the helper promises.

mod arena;
mod attach;
mod command;
mod descriptors;
mod every_call;
mod formats;
mod freezer;
mod half;
mod hiding;
mod hostile;
mod hostile_files;
mod kills;
mod leases;
mod left_over;
mod limits;
mod mount_points;
mod mount_tables;
mod policy;
mod processor;
mod refusing;
mod rights;
mod roots;
mod secrecy;
mod served;
mod start;
mod surroundings;
mod tiny_limits;
mod traced;
mod unpacked;
mod verity;
