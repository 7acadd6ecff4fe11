// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A namespace for processes, in which nothing outlives the program that it was made for.
//!
//! ```text
//! caller ── waiter ─┊─ first (number 1) ── program ── whatever it starts
//!                   ┊  the namespace
//! ```
//!
//! The *waiter* is the caller's child; it ends as the program did, and when the caller
//! dies. The *first* process adopts and reaps those whose parents are gone; when it ends
//! the kernel ends all others. The program is not the first one itself, for which signals
//! mean something else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cabane_sys::raw::syscall;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process,
    set_parent_process_death_signal, setpgid, setrlimit, wait,
};

use crate::copy::{copy_process, exit, wait_for};

/// `linux/sched.h`.
const CLONE_NEWPID: i64 = 0x2000_0000;
/// As every system has it; also the default action in `signal(2)`.
const SIGCHLD: i32 = 17;
const DEFAULT_ACTION: usize = 0;
/// Signals up to this one had a meaning before there were real-time signals.
const LAST_SIGNAL: i32 = 31;
/// How many descriptors are closed one by one where the kernel cannot close them at once.
const DESCRIPTORS: i32 = 4096;

/// The same number for all architectures.
const SYS_CLOSE_RANGE: i64 = 436;
#[cfg(target_arch = "x86_64")]
const SYS_CLONE: Option<i64> = Some(56);
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const SYS_CLONE: Option<i64> = Some(220);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const SYS_CLONE: Option<i64> = None;

/// What the first process says when it has everything it needs.
const READY: u8 = 1;

unsafe extern "C" {
    fn signal(number: i32, action: usize) -> usize;
}

/// Goes on in a new namespace for processes, with a `/proc` that shows it.
///
/// For a process that was just copied, has one thread and is about to start a program: in
/// `prepare_child`, after the mounts. What returns is another process than what called:
/// it leads a process group of its own, and its parent stays behind to end as it does.
/// Standard input, output and error are shared; all other descriptors of those who stay
/// behind are closed.
///
/// Returns false, with nothing changed, where the system does not allow this: without the
/// right to make such a namespace, or where parts of `/proc` are covered.
///
/// # Errors
///
/// Those of pipes and copies of the process; the caller should not go on.
pub fn enter_process_namespace() -> io::Result<bool> {
    let (from_first, to_waiter) = pipe_with(PipeFlags::CLOEXEC)?;
    let (alive, of_waiter) = pipe_with(PipeFlags::CLOEXEC)?;
    match clone_into_namespace() {
        Err(_) => Ok(false),
        Ok(None) => {
            drop((from_first, of_waiter));
            be_first(to_waiter, &alive)
        }
        Ok(Some(first)) => {
            drop((to_waiter, alive));
            let mut from_first = File::from(from_first);
            let mut ready = [0];
            if from_first.read_exact(&mut ready).is_err() || ready != [READY] {
                wait_for(first)?;
                return Ok(false);
            }
            be_waiter(first, from_first, &of_waiter)
        }
    }
}

/// Copies the process; the copy is the first one of a new namespace. `None` in the copy.
fn clone_into_namespace() -> io::Result<Option<Pid>> {
    let number = SYS_CLONE.ok_or(Errno::NOSYS)?;
    let flags = CLONE_NEWPID | i64::from(SIGCHLD);
    // SAFETY: without a stack and without shared memory this is a fork of the only thread;
    // the arguments that differ between architectures are all zero.
    let result = unsafe { syscall(number, flags, 0_i64, 0_i64, 0_i64, 0_i64) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let number = i32::try_from(result).map_err(io::Error::other)?;
    Ok(Pid::from_raw(number))
}

/// In the first process: starts the one that goes on, and returns in that one only.
fn be_first(to_waiter: OwnedFd, alive: &OwnedFd) -> io::Result<bool> {
    let prepared = || -> rustix::io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The waiter may have died before; then it holds its end of the pipe no more.
        if is_closed(alive.as_fd()) {
            return Err(Errno::PIPE);
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None)
    };
    if prepared().is_err() {
        exit(0);
    }
    // Where the caller's children are not waited for, their status is lost.
    default_action(SIGCHLD);
    // SAFETY: as for every copy of a process with one thread: the child goes on as the
    // caller did, and the parent leaves without running anything that belongs to it.
    match unsafe { copy_process() } {
        Err(_) => exit(0),
        Ok(None) => {
            // Those who wait for a group wait for this one.
            setpgid(None, None)?;
            Ok(true)
        }
        Ok(Some(program)) => {
            let mut to_waiter = File::from(to_waiter);
            let notified = to_waiter.write_all(&[READY]);
            close_others(&[to_waiter.as_fd()]);
            let status = match notified {
                Ok(()) => reap_until(program),
                Err(_) => None,
            };
            if let Some(status) = status {
                let _ = to_waiter.write_all(&status.as_raw().to_ne_bytes());
            }
            // All others end with this one.
            exit(0)
        }
    }
}

/// In the process that called: waits, and ends as the program did.
fn be_waiter(first: Pid, mut from_first: File, of_waiter: &OwnedFd) -> ! {
    // Handlers of the caller's program mean nothing here.
    (1..=LAST_SIGNAL).for_each(default_action);
    close_others(&[from_first.as_fd(), of_waiter.as_fd()]);
    let mut status = [0; 4];
    let is_received = from_first.read_exact(&mut status).is_ok();
    // Only when the namespace is empty.
    let _ = wait_for(first);
    if !is_received {
        // Someone ended the first process, and with it all others.
        end_by(Signal::KILL.as_raw());
    }
    let status = i32::from_ne_bytes(status);
    match status & 0x7f {
        0 => exit(status >> 8 & 0xff),
        number => end_by(number),
    }
}

fn default_action(number: i32) {
    // SAFETY: sets an action that needs no code; refused for the two that have none.
    unsafe { signal(number, DEFAULT_ACTION) };
}

/// Ends this process by a signal, without a dump of its memory.
fn end_by(number: i32) -> ! {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = kill_process(getpid(), signal);
    }
    // A signal that does not end anything, or not yet.
    exit(128 + number)
}

/// Waits for all children until this one has ended.
fn reap_until(program: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == program => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn is_closed(pipe: BorrowedFd<'_>) -> bool {
    let mut wanted = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut wanted, Some(&at_once)).is_ok_and(|count| count > 0)
}

/// Closes everything but the standard descriptors and these: others wait for the end of
/// pipes that this process happens to hold.
fn close_others(keep: &[BorrowedFd<'_>]) {
    let mut keep: Vec<i32> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    keep.sort_unstable();
    let mut next = 3;
    for number in keep {
        close_range(next, number - 1);
        next = number + 1;
    }
    close_range(next, i32::MAX);
}

fn close_range(first: i32, last: i32) {
    if first > last {
        return;
    }
    // SAFETY: nothing in this process uses the descriptors any more: it only waits.
    let result = unsafe { syscall(SYS_CLOSE_RANGE, i64::from(first), i64::from(last), 0_i64) };
    if result < 0 {
        for number in first..=last.min(DESCRIPTORS) {
            // SAFETY: as above.
            unsafe { rustix::io::close(number) };
        }
    }
}
