// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane-mount`: mounts images for a user and becomes the user's command.
//!
//! Installed set-uid root. Its one argument is the number of a descriptor from which
//! the request is read (see `cabane_mount::Request`); its environment is not looked
//! at. The order of things is the safety of it:
//!
//! 1. signals are held back, limits and the file mode mask are ours;
//! 2. rights are lowered to the caller's, and only then is anything of his read;
//! 3. rights are raised, what the policy allows is mounted;
//! 4. all rights are given up for good, which is verified;
//! 5. limits, mask and signals are the caller's again, and the command starts.
//!
//! `docs/design/0005-the-helper.md` has the reasons, `tests/privileged` the attacks.

#![forbid(unsafe_code)]

mod caller;
mod outcome;
mod request;
mod surroundings;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use cabane_mount::{Policy, Scope, StartRequest, perform_privileged, sweep};

use crate::caller::Caller;
use crate::outcome::Failure;
use crate::request::Task;
use crate::surroundings::Surroundings;

fn main() -> ExitCode {
    // A message with the place of a mistake is for developers, and making it reads
    // files.
    std::panic::set_hook(Box::new(|_| {}));
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            outcome::tell(&failure);
            failure.exit_code()
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut surroundings = Surroundings::take_over().map_err(Failure::System)?;
    let caller = Caller::identify().map_err(Failure::System)?;
    if !caller.is_privileged() {
        return Err(Failure::NotPrivileged);
    }
    caller.lower().map_err(Failure::System)?;
    let task = request::read()?;
    let policy = Policy::read()?;
    surroundings.make_room().map_err(Failure::System)?;
    Caller::raise().map_err(Failure::System)?;
    surroundings.lift_limits();
    let done = carry_out(task, &policy, &caller);
    // Also after a failure: to tell it can take as long as the caller likes, who must be
    // able to end this process, and be the one who has it.
    surroundings.give_back_limits();
    caller.drop_for_good().map_err(Failure::System)?;
    match done? {
        Some(start) => Err(become_command(&start, &surroundings)),
        None => Ok(()),
    }
}

/// Does what takes the rights of root; returns what is to be started.
fn carry_out(
    task: Task,
    policy: &Policy,
    caller: &Caller,
) -> Result<Option<StartRequest>, cabane_mount::Error> {
    match task {
        Task::Clean => sweep(Scope::UnusedOf(caller.user())).map(|_| None),
        Task::Start { plan, start } => {
            perform_privileged(*plan, policy, caller.user()).map(|()| Some(start))
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

/// Starts the command in the place of this process. Returns only if that failed.
fn become_command(start: &StartRequest, surroundings: &Surroundings) -> Failure {
    if let Err(failure) = go_to_work(start) {
        return failure;
    }
    let [program, arguments @ ..] = start.command.as_slice() else {
        return Failure::Request(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for variable in &start.variables {
        let bytes = variable.as_bytes();
        // A name may begin with `=`, as it does nowhere; then it ends at the second.
        let end = bytes.iter().skip(1).position(|byte| *byte == b'=');
        let Some((name, value)) = end.and_then(|end| bytes.split_at_checked(end.saturating_add(1)))
        else {
            continue;
        };
        let value = value.get(1..).unwrap_or_default();
        command.env(
            std::ffi::OsStr::from_bytes(name),
            std::ffi::OsStr::from_bytes(value),
        );
    }
    if let Err(source) = surroundings.give_back() {
        return Failure::System(source);
    }
    let source = command.exec();
    Failure::Command {
        program: program.into(),
        source,
    }
}
