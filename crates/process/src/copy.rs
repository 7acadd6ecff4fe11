// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copies of this process, and waiting for them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

// The two that must be those of the C library, which has work of its own to do when
// a process is copied. The standard library links them already; declared here, they
// need no crate.
unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Copies this process; returns `None` in the copy, which has one thread.
///
/// # Safety
///
/// The copy makes system calls, allocates (which the C libraries keep possible across fork), and
/// ends by exec or [`exit`], unless the caller had one thread only.
pub(crate) unsafe fn copy_process() -> io::Result<Option<Pid>> {
    // SAFETY: the caller keeps to what is written above.
    match unsafe { fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number)),
    }
}

/// Runs `work` in a copy of this process, which then ends.
///
/// # Safety
///
/// As for [`copy_process`].
pub(crate) unsafe fn run_in_copy(work: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the caller keeps to it, and the copy ends here.
    if let Some(child) = unsafe { copy_process() }? {
        return Ok(child);
    }
    let _ = catch_unwind(AssertUnwindSafe(work));
    exit(0)
}

/// Ends this process without running what belongs to the one that it is a copy of.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { _exit(status) }
}

/// Waits for the end of a child.
pub(crate) fn wait_for(child: Pid) -> io::Result<()> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
