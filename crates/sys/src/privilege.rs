// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who the process is, and which signals reach it.
//!
//! All calls are about the calling thread; they are meant for processes that have
//! one.

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, getgroups};
use rustix::thread::set_thread_groups;

/// Room for the `sigset_t` of the C library; both glibc and musl use 128 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct SignalSet([u8; 128]);

/// `SIG_SETMASK` of every architecture but Alpha, MIPS and SPARC.
const SIG_SETMASK: i32 = 2;

unsafe extern "C" {
    fn sigfillset(set: *mut SignalSet) -> i32;
    fn sigprocmask(how: i32, set: *const SignalSet, before: *mut SignalSet) -> i32;
    fn getresuid(real: *mut u32, effective: *mut u32, saved: *mut u32) -> i32;
    fn setfsuid(user: u32) -> i32;
    fn setfsgid(group: u32) -> i32;
    fn getresgid(real: *mut u32, effective: *mut u32, saved: *mut u32) -> i32;
}

/// The three numbers by which the kernel knows a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Who started the process.
    pub real: u32,
    /// Whose rights the process uses.
    pub effective: u32,
    /// Whose rights it may take back.
    pub saved: u32,
}

impl Numbers {
    /// Tells whether all three are this one.
    pub fn are_all(self, number: u32) -> bool {
        [self.real, self.effective, self.saved] == [number; 3]
    }
}

/// Returns the users of the process.
///
/// # Errors
///
/// None that the kernel knows.
pub fn users() -> io::Result<Numbers> {
    numbers(getresuid)
}

/// Returns the groups of the process, without the supplementary ones.
///
/// # Errors
///
/// None that the kernel knows.
pub fn groups() -> io::Result<Numbers> {
    numbers(getresgid)
}

fn numbers(get: unsafe extern "C" fn(*mut u32, *mut u32, *mut u32) -> i32) -> io::Result<Numbers> {
    let mut numbers = Numbers {
        real: u32::MAX,
        effective: u32::MAX,
        saved: u32::MAX,
    };
    // SAFETY: three places that live until the call returns, of the type it writes.
    let result = unsafe {
        get(
            &raw mut numbers.real,
            &raw mut numbers.effective,
            &raw mut numbers.saved,
        )
    };
    answer(result).map(|()| numbers)
}

/// Access to files with the rights of a user, while other rights stay.
///
/// With the user go the capabilities that override the permissions of files, and
/// `CAP_SYS_ADMIN` stays (`capabilities(7)`). Groups stay what they are.
#[derive(Debug)]
pub struct FileSystemUser {
    before: u32,
}

impl FileSystemUser {
    /// Takes the rights of a user, until the value is dropped.
    ///
    /// # Errors
    ///
    /// `EPERM` if the process may not.
    pub fn become_user(user: u32) -> io::Result<Self> {
        let before = file_system_user();
        // SAFETY: changes a number of the calling thread, no memory.
        unsafe { setfsuid(user) };
        if file_system_user() == user {
            Ok(Self { before })
        } else {
            Err(Errno::PERM.into())
        }
    }
}

impl Drop for FileSystemUser {
    fn drop(&mut self) {
        // SAFETY: as above. Back to what it was, which is never refused.
        unsafe { setfsuid(self.before) };
    }
}

/// Access to files with the groups of a user, while the user stays.
///
/// Only the calling thread has them, also in a process with several.
#[derive(Debug)]
pub struct FileSystemGroups {
    before: u32,
    others_before: Vec<Gid>,
}

impl FileSystemGroups {
    /// Takes a group and supplementary groups, until the value is dropped.
    ///
    /// # Errors
    ///
    /// `EPERM` if the process may not.
    pub fn become_group(group: u32, others: &[u32]) -> io::Result<Self> {
        let others_before = getgroups()?;
        let others: Vec<Gid> = others.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&others)?;
        let taken = Self {
            // SAFETY: changes a number of the calling thread, no memory.
            before: unsafe { setfsgid(group) }.cast_unsigned(),
            others_before,
        };
        // SAFETY: no group has this number, so nothing changes, and the present one is told.
        if unsafe { setfsgid(u32::MAX) }.cast_unsigned() == group {
            Ok(taken)
        } else {
            Err(Errno::PERM.into())
        }
    }
}

impl Drop for FileSystemGroups {
    fn drop(&mut self) {
        // SAFETY: as above. Back to what it was, which is never refused.
        unsafe { setfsgid(self.before) };
        // Whoever could change them can change them back.
        let _ = set_thread_groups(&self.others_before);
    }
}

/// Returns the user with whose rights files are accessed.
pub fn file_system_user() -> u32 {
    // SAFETY: no user has this number, so nothing changes, and the present one is told.
    unsafe { setfsuid(u32::MAX) }.cast_unsigned()
}

/// The signals that were held back before [`hold_signals`].
#[derive(Clone, Debug)]
pub struct HeldSignals(SignalSet);

/// Holds back every signal that can be; they arrive after [`release_signals`].
///
/// # Errors
///
/// None that the kernel knows.
pub fn hold_signals() -> io::Result<HeldSignals> {
    let (mut all, mut before) = (SignalSet([0; 128]), SignalSet([0; 128]));
    // SAFETY: both sets have the size of the library's and live until the calls return.
    let result = unsafe {
        sigfillset(&raw mut all);
        sigprocmask(SIG_SETMASK, &raw const all, &raw mut before)
    };
    answer(result).map(|()| HeldSignals(before))
}

/// Lets through what was let through before.
///
/// # Errors
///
/// None that the kernel knows.
pub fn release_signals(before: &HeldSignals) -> io::Result<()> {
    // SAFETY: the set was filled by the same call and lives until this one returns.
    answer(unsafe { sigprocmask(SIG_SETMASK, &raw const before.0, core::ptr::null_mut()) })
}

fn answer(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_of_an_ordinary_process_are_one() {
        let effective = rustix::process::geteuid().as_raw();
        assert!(users().unwrap().are_all(effective));
    }
}
