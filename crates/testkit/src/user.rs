// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An ordinary user to become.

use rustix::process::{DumpableBehavior, Gid, Uid, geteuid, set_dumpable_behavior};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// The number of the ordinary user of the tests. No one in particular: it needs
/// no entry in the user database.
pub const ORDINARY_USER: u32 = 61_234;

/// Whether the tests run as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Makes this thread the ordinary user for good. Does nothing where the tests run
/// as an ordinary user already.
///
/// # Panics
///
/// If root is not allowed to give up its rights.
pub fn become_ordinary_user() {
    if !is_root() {
        return;
    }
    set_thread_groups(&[]).expect("give up the groups");
    set_thread_gid(Gid::from_raw(ORDINARY_USER)).expect("change the group");
    set_thread_uid(Uid::from_raw(ORDINARY_USER)).expect("change the user");
    // A process that changes its user may no longer write to its own /proc files;
    // one that a user started may.
    set_dumpable_behavior(DumpableBehavior::Dumpable).expect("own the files of the process");
}
