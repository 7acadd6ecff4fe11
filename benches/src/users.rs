// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Doing things as an ordinary user.
//!
//! In Linux each thread has an identity of its own, so that the commands need not
//! change theirs: that would cost a copy of this process for each of them.

use std::fs;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// Users who have no name: enough for the helper, and for nothing that looks them up.
const NAMELESS: u32 = 61_234;

/// Whether this runs as root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Does something in a thread that is an ordinary user, and whose children are.
pub(crate) fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    as_user(ordinary_user(), work)
}

/// The same as a certain user, if this is root.
pub(crate) fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_user(user);
            work()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns so many users, the ordinary one first.
pub(crate) fn some_users(count: u32) -> Vec<u32> {
    let nameless = (NAMELESS..).filter(|user| *user != ordinary_user());
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    std::iter::once(ordinary_user()).chain(nameless).take(count).collect()
}

fn become_user(user: u32) {
    if !is_root() {
        return;
    }
    set_thread_groups(&[]).expect("root may give up its groups");
    set_thread_gid(Gid::from_raw(user)).expect("root may change its group");
    set_thread_uid(Uid::from_raw(user)).expect("root may change its user");
}

/// Returns a user who is not root. `fusermount3` serves only users who have a name,
/// so the first one of the user database is taken, or `daemon`, whom every system has.
fn ordinary_user() -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let users = text.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok());
    users.into_iter().find(|user| (1000..60_000).contains(user)).unwrap_or(1)
}
