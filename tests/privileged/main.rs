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
mod hostile;
mod kills;
mod left_over;
mod limits;
mod mount_points;
mod policy;
mod roots;
mod start;
mod surroundings;
