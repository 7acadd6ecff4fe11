// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Leaving the namespaces of the caller.

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

/// Gives the process a mount namespace of its own, a copy of the caller's.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN` in the user namespace of the process.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Gives the process a user namespace in which it keeps its user and group, and
/// a mount namespace that this user namespace owns.
///
/// The process holds every capability in the new user namespace until it starts
/// a program. Other users and groups have no number there (files show as
/// `nobody`), and permissions by supplementary groups go on to work.
///
/// # Errors
///
/// `EPERM` where the system forbids user namespaces, `EINVAL` in a process with
/// several threads, `ENOSPC` at the limit of namespaces.
pub fn unshare_user_and_mounts() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // Without this the kernel refuses a group map written by an ordinary user.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the flags never hold FILES, the one that would leave other threads
    // with descriptors they do not know; namespaces change no memory.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}
