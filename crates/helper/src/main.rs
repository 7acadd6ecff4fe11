// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane-mount`: mounts images for a user and becomes the user's command.
//!
//! Installed set-uid root. Its one argument is the number of a descriptor from which
//! the request is read (see `cabane_mount::Request`); its environment is not looked
//! at. The order of things is the safety of it:
//!
//! 1. limits are lifted, signals are held back, the file mode mask is ours;
//! 2. rights are lowered to the caller's, and only then is anything of theirs read;
//! 3. rights are raised, what the policy allows is mounted, and what the caller passed is
//!    looked at with their rights only (`cabane_privileged`);
//! 4. all rights are given up for good, which is verified;
//! 5. limits, mask and signals are the caller's again, and the command starts.
//!
//! `docs/design/0005-the-helper.md` has the reasons, `tests/privileged` the attacks.

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
// What the standard library does before `main` ends the process by a signal where limits leave
// it no memory or no descriptors.
#![no_main]
#![deny(unsafe_code)]

mod inherited;
mod outcome;
mod request;

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::panic::catch_unwind;
use std::path::PathBuf;

use cabane_privileged::{
    Caller, Error, Policy, SERVER_ENDED, Scope, StartRequest, Way, perform_privileged, raise,
    release,
};
use cabane_sys::exec::Program;
use cabane_sys::namespace;
use rustix::fs::statfs;

use crate::inherited::{Inherited, Limits};
use crate::outcome::Failure;
use crate::request::Task;

/// Called by the C library as the first function of the program.
#[expect(unsafe_code, reason = "the only way to begin before the standard library does")]
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // First of all, and with little stack: there may be no memory before.
    let limits = Limits::lift();
    // SAFETY: these are what the C library hands to `main`.
    begin(unsafe { cabane_sys::arguments::of_main(count, arguments) }, limits)
}

#[inline(never)]
fn begin(arguments: [Option<&CStr>; 2], limits: Limits) -> c_int {
    let run = || {
        // A message with the place of a mistake is for developers, and making it reads
        // files.
        std::panic::set_hook(Box::new(|_| {}));
        run(arguments, limits)
    };
    catch_unwind(run).unwrap_or(outcome::NOT_STARTED)
}

/// Returns the exit code, unless the process becomes the command.
fn run(arguments: [Option<&CStr>; 2], limits: Limits) -> c_int {
    let (message, code) = match prepare(arguments) {
        Ok(None) => return 0,
        Ok(Some(ready)) => {
            // The last that is done: it may leave no memory.
            limits.give_back();
            let source = ready.program.become_it();
            let program = ready.name;
            let failure = Failure::Command { program, source };
            return outcome::tell(&outcome::message(&failure), failure.exit_code());
        }
        Err(failure) => (outcome::message(&failure), failure.exit_code()),
    };
    limits.give_back();
    outcome::tell(&message, code)
}

/// Does all but becoming the command. Afterwards the rights are gone, also after a failure: to
/// tell it can take as long as the caller likes, who must be able to end this process.
fn prepare(arguments: [Option<&CStr>; 2]) -> Result<Option<Ready>, Failure> {
    let caller = Caller::of_process().map_err(Failure::System)?;
    let inherited = Inherited::take_over().map_err(Failure::System);
    if !caller.is_privileged() {
        return Err(Failure::NotPrivileged);
    }
    let done = inherited.and_then(|inherited| {
        let start = with_rights(arguments, &caller)?;
        Ok(start.map(|start| (start, inherited)))
    });
    // It takes rights to give up all of them.
    raise().and_then(|()| caller.drop_for_good()).map_err(|_| Failure::Rights)?;
    done?.map(|(start, inherited)| make_ready(start, &inherited)).transpose()
}

/// Reads what is requested as the caller, and carries it out; returns what is to be started.
fn with_rights(
    arguments: [Option<&CStr>; 2],
    caller: &Caller,
) -> Result<Option<StartRequest>, Failure> {
    caller.lower().map_err(Failure::System)?;
    leave_callers_places().map_err(Failure::System)?;
    let task = request::read(arguments)?;
    let policy = Policy::read()?;
    raise().map_err(Failure::System)?;
    Ok(execute(task, &policy, caller)?)
}

/// Leaves the working directory, and keeps the mount namespace open until the command starts.
///
/// This is done as the caller. Releasing the last reference to a mount waits for its file system,
/// which a process of the caller may serve.
fn leave_callers_places() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    std::mem::forget(namespace::own_mounts()?);
    Ok(())
}

/// Does what takes the rights of root; returns what is to be started.
fn execute(task: Task, policy: &Policy, caller: &Caller) -> Result<Option<StartRequest>, Error> {
    match task {
        Task::Clean => release(Scope::UnusedOwn, caller.user()).map(|_| None),
        Task::Start { plan, start } => {
            perform_privileged(*plan, policy, caller).map(|()| Some(start))
        }
    }
}

/// Enters the working directory, or else `/`, where that may be.
fn go_to_work(start: &StartRequest) -> Result<(), Failure> {
    if let Some(path) = &start.working_directory {
        match std::env::set_current_dir(path) {
            Ok(()) => return Ok(()),
            Err(source) if start.must_enter => {
                let path = path.clone();
                return Err(Failure::Directory { path, source });
            }
            Err(_) => outcome::warn_of_directory(path),
        }
    }
    std::env::set_current_dir("/").map_err(Failure::System)
}

/// Asks the processes that serve images for an answer that the kernel does not know by itself, as
/// the caller: one that could not read its image has ended.
fn look_at_served(start: &StartRequest) -> Result<(), Failure> {
    let mut served = start.images.iter().filter(|image| image.way == Way::Fuse);
    served.try_for_each(|image| {
        statfs(&image.mount_point).map(drop).map_err(|errno| {
            Failure::Mount(Error::Image {
                path: image.name.clone().into(),
                format: image.format.name(),
                log: Some(SERVER_ENDED.into()),
                source: errno.into(),
            })
        })
    })
}

/// A command that only has to be started.
struct Ready {
    program: Program,
    name: PathBuf,
}

fn make_ready(start: StartRequest, inherited: &Inherited) -> Result<Ready, Failure> {
    look_at_served(&start)?;
    go_to_work(&start)?;
    let program = Program::new(&start.command, &start.variables).map_err(Failure::Request)?;
    let name = start.command.into_iter().next().unwrap_or_default().into();
    inherited.give_back().map_err(Failure::System)?;
    Ok(Ready { program, name })
}
