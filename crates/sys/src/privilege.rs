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

/// The number of the call on this architecture (`asm/unistd.h`). The C library's function leaves
/// out the signals that it uses itself.
#[cfg(target_arch = "x86_64")]
const SYS_RT_SIGPROCMASK: i64 = 14;
#[cfg(target_arch = "powerpc64")]
const SYS_RT_SIGPROCMASK: i64 = 174;
#[cfg(not(any(target_arch = "x86_64", target_arch = "powerpc64")))]
const SYS_RT_SIGPROCMASK: i64 = 135;

/// `SIG_SETMASK` of every architecture but Alpha, MIPS and SPARC.
const SIG_SETMASK: i32 = 2;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
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
    let mut numbers = Numbers { real: u32::MAX, effective: u32::MAX, saved: u32::MAX };
    // SAFETY: three places that live until the call returns, of the type it writes.
    let result =
        unsafe { get(&raw mut numbers.real, &raw mut numbers.effective, &raw mut numbers.saved) };
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
        if file_system_user() == user { Ok(Self { before }) } else { Err(Errno::PERM.into()) }
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
        // SAFETY: no group has this number, so nothing changes, and the present one is returned.
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
        // Anyone who could change them can change them back.
        let _ = set_thread_groups(&self.others_before);
    }
}

/// Returns the user with whose rights files are accessed.
pub fn file_system_user() -> u32 {
    // SAFETY: no user has this number, so nothing changes, and the present one is returned.
    unsafe { setfsuid(u32::MAX) }.cast_unsigned()
}

/// The signals that were held back before [`hold_signals`].
#[derive(Clone, Debug)]
pub struct HeldSignals(u64);

/// Holds back every signal that can be; they arrive after [`release_signals`].
///
/// # Errors
///
/// None that the kernel knows.
pub fn hold_signals() -> io::Result<HeldSignals> {
    set_mask(u64::MAX).map(HeldSignals)
}

/// Lets through what was let through before.
///
/// # Errors
///
/// None that the kernel knows.
pub fn release_signals(before: &HeldSignals) -> io::Result<()> {
    set_mask(before.0).map(drop)
}

/// Sets the signals that are held back, a bit for each of the 64, and returns those before.
fn set_mask(mask: u64) -> io::Result<u64> {
    let mut before = 0_u64;
    // SAFETY: both sets have the size that is given, and live until the call returns.
    let result = unsafe {
        syscall(
            SYS_RT_SIGPROCMASK,
            i64::from(SIG_SETMASK),
            &raw const mask,
            &raw mut before,
            size_of::<u64>(),
        )
    };
    if result == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
}

fn answer(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
