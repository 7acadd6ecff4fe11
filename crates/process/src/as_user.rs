// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking a program that runs as another user, out of a process with the rights of root.
//!
//! What it says is that user's, who can change it while it runs: it is read up to a limit, and
//! no one waits for ever.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cabane_sys::namespace::enter_mounts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, PidfdFlags, Uid, pidfd_open, setsid};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::alone::close_all_with_exec;
use crate::child::prepare_child;

/// The most that is read of what a program says, in bytes.
const MOST: u64 = 1 << 20;

/// A user with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub user: u32,
    /// The primary group.
    pub group: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

/// The output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Whether it ended by itself without complaint, as far as that is known.
    pub is_well: bool,
    /// Its exit code; none if it was killed, or nothing is known.
    pub code: Option<i32>,
    /// Its standard output, up to a limit.
    pub output: Vec<u8>,
    /// Its standard error, up to a limit.
    pub errors: Vec<u8>,
}

/// Runs a program as a user, without means to gain rights, with an empty standard input and
/// nothing else that this process has open, in a session of its own; and in another mount
/// namespace, if one is given.
///
/// # Errors
///
/// Those of fork and exec, of entering the namespace and of taking the user's numbers;
/// `TimedOut` if it has not ended in time: then it is killed.
pub fn output_as(
    command: &mut Command,
    user: &User,
    mounts: Option<&File>,
    limit: Duration,
) -> io::Result<Finished> {
    let output = File::from(memfd_create(c"output", MemfdFlags::CLOEXEC)?);
    let errors = File::from(memfd_create(c"errors", MemfdFlags::CLOEXEC)?);
    let user = user.clone();
    let mounts = mounts.map(File::try_clone).transpose()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(errors.try_clone()?))
        .current_dir("/");
    prepare_child(command, move || {
        setsid()?;
        if let Some(mounts) = &mounts {
            // Takes the root and the working directory along.
            enter_mounts(mounts.as_fd())?;
        }
        become_user(&user)?;
        close_all_with_exec()
    });
    let mut child = command.spawn()?;
    let is_over = wait(&child, limit);
    if !matches!(is_over, Ok(true)) {
        // What it may have started holds nothing of ours.
        let _ = child.kill();
    }
    let status = child.wait().ok();
    if !is_over? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(Finished {
        is_well: status.is_some_and(|status| status.success()),
        code: status.and_then(|status| status.code()),
        output: read(output)?,
        errors: read(errors)?,
    })
}

/// Waits until a process has ended; `false` if that takes too long.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
    loop {
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut watched, Some(&limit)) {
            Err(Errno::INTR) => {}
            answer => return Ok(answer? > 0),
        }
    }
}

/// Takes the numbers of a user for ever.
pub(crate) fn become_user(user: &User) -> io::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    let (group, user) = (Gid::from_raw(user.group), Uid::from_raw(user.user));
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    set_no_new_privs(true)?;
    Ok(())
}

fn read(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rustix::process::{getegid, geteuid, getgroups};

    use super::*;

    fn myself() -> User {
        let groups = getgroups().unwrap();
        User {
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        }
    }

    fn run_script(script: &str, user: &User, seconds: u64) -> io::Result<Finished> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        output_as(&mut command, user, None, Duration::from_secs(seconds))
    }

    #[test]
    fn a_program_runs_as_the_user() {
        if !geteuid().is_root() {
            cabane_testkit::not_run!("only root can become another user");
        }
        let user = User { user: 61234, group: 61235, groups: vec![61236] };
        let script = "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status";
        let found = run_script(script, &user, 60).unwrap();
        let text = String::from_utf8(found.output).unwrap();
        assert_eq!(text, "61234\n61235\n61235 61236\nNoNewPrivs:\t1\n");
        assert!(found.is_well);
    }

    #[test]
    fn what_it_complains_about_is_known() {
        if !geteuid().is_root() {
            cabane_testkit::not_run!("only root can set groups");
        }
        let found =
            run_script("echo no >&2; ls /proc/self/fd | wc -l; exit 3", &myself(), 60).unwrap();
        let expected = Finished {
            is_well: false,
            code: Some(3),
            // The standard ones, and the directory itself.
            output: b"4\n".to_vec(),
            errors: b"no\n".to_vec(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        if !geteuid().is_root() {
            cabane_testkit::not_run!("only root can set groups");
        }
        let error = run_script("exec sleep 1000", &myself(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
