// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Starting a program out of a process that must not be held up by it in any way.
//!
//! [`crate::child::start_detached`] waits until the program has begun, and relies on this
//! process to have marked its descriptors. Here neither is so: the process may be one of
//! others that has loaded our code, and the program may be on a file system that hangs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::setsid;

use crate::copy::{copy_process, run_in_copy, wait_for};

/// Starts a program in a session of its own, with an empty standard input, output and error,
/// one descriptor, and nothing else that this process has open. It is no child of this
/// process, and no one learns whether it could be started.
///
/// Control groups with `group` in their path are left: their maker may wait until
/// they are empty.
///
/// # Errors
///
/// Those of fork.
pub fn start_alone(command: &mut Command, kept: BorrowedFd<'_>, group: &str) -> io::Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    // SAFETY: the child makes system calls, allocates, and ends by exec or with the closure.
    let child = unsafe { run_in_copy(|| drop(leave_and_become(command, kept, group))) }?;
    // It ends at once. Where ended children are not kept there is none.
    let _ = wait_for(child);
    Ok(())
}

/// Returns only where something is in the way.
fn leave_and_become(command: &mut Command, kept: BorrowedFd<'_>, group: &str) -> io::Result<()> {
    setsid()?;
    // SAFETY: as above; the caller waits for this process, and for no other.
    if unsafe { copy_process() }?.is_some() {
        return Ok(());
    }
    leave_control_groups(group);
    close_with_exec(kept.as_raw_fd())?;
    Err(command.exec())
}

/// Moves a child of this process into the control groups of another process that have `group` in
/// their path, as far as that is possible: what ends those ends it, too.
pub fn move_into_groups_of(process: u32, other: u32, group: &str) {
    if !is_child(process) {
        // It has ended, and the number may be that of anyone by now.
        return;
    }
    let text = fs::read_to_string(format!("/proc/{other}/cgroup")).unwrap_or_default();
    for line in text.lines() {
        let Some(root) = root_to_go_to(line, group) else {
            continue;
        };
        let path = line.splitn(3, ':').last().unwrap_or_default();
        for place in [format!("/sys/fs/cgroup/{root}{path}"), format!("/sys/fs/cgroup{path}")] {
            if write_to_group(&place, &process.to_string()).is_ok() {
                break;
            }
        }
    }
}

fn is_child(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.is_some_and(|parent| parent.trim() == std::process::id().to_string())
}

fn write_to_group(place: &str, process: &str) -> io::Result<()> {
    let mut file = File::options().write(true).open(format!("{place}/cgroup.procs"))?;
    file.write_all(process.as_bytes())
}

/// Moves this process to the root of the hierarchies, as far as that is possible.
fn leave_control_groups(group: &str) {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for root in text.lines().filter_map(|line| root_to_go_to(line, group)) {
        for place in [format!("/sys/fs/cgroup/{root}"), "/sys/fs/cgroup".to_owned()] {
            if write_to_group(&place, "0").is_ok() {
                break;
            }
        }
    }
}

/// Reads a line `NUMBER:CONTROLLERS:PATH`; returns where the hierarchy is, if it is one in
/// which a group is left. The second version of control groups has no controllers there.
fn root_to_go_to<'a>(line: &'a str, group: &str) -> Option<&'a str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    fields.next().filter(|path| path.contains(group))?;
    Some(match controllers {
        "" => "unified",
        named => named.strip_prefix("name=").unwrap_or(named),
    })
}

/// Lets the next program that this process becomes find nothing open but the standard
/// descriptors.
///
/// # Errors
///
/// Those of reading `/proc/self/fd`, which must be there.
pub fn close_all_with_exec() -> io::Result<()> {
    close_with_exec(-1)
}

/// Marks what is open, but one descriptor and the standard ones. What stayed open could be
/// the output of a task, whose reader would then wait for us.
fn close_with_exec(kept: RawFd) -> io::Result<()> {
    let numbers = fs::read_dir("/proc/self/fd")?
        .map(|entry| Ok(entry?.file_name().to_str().and_then(|name| name.parse().ok())))
        .collect::<io::Result<Vec<Option<RawFd>>>>()?;
    for number in numbers.into_iter().flatten().filter(|number| *number > 2) {
        let flags = if number == kept { FdFlags::empty() } else { FdFlags::CLOEXEC };
        // SAFETY: not -1. The one with which the directory was read is closed by now, and
        // then nothing is marked.
        match fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, flags) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::pipe::pipe;

    use super::*;

    #[test]
    fn a_program_alone_has_one_descriptor_and_no_other() {
        let (reader, writer) = pipe().unwrap();
        // It is not marked, and would be inherited.
        let (other, inherited): (OwnedFd, OwnedFd) = pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        let number = writer.as_raw_fd().to_string();
        command.args(["-c", "echo here >&$0; exec sleep 5", &number]);
        start_alone(&mut command, writer.as_fd(), "/job_").unwrap();
        drop((writer, inherited));
        // At its end at once, although the program goes on.
        let mut left = Vec::new();
        File::from(other).read_to_end(&mut left).unwrap();
        let mut output = [0; 16];
        let length = File::from(reader).read(&mut output).unwrap();
        assert_eq!(output.get(..length), Some(&b"here\n"[..]));
    }

    #[test]
    fn the_groups_of_a_job_are_left_and_no_others() {
        let lines = [
            "6:freezer:/slurm/uid_7/job_1/step_0",
            "1:name=systemd:/job_1",
            "0::/system.slice/slurmstepd.scope/job_1/step_0/slurm",
            "4:memory:/user.slice",
            "",
        ];
        let expected = [Some("freezer"), Some("systemd"), Some("unified"), None, None];
        assert_eq!(lines.map(|line| root_to_go_to(line, "/job_")), expected);
    }

    #[test]
    fn a_program_that_is_not_there_is_nobodys_concern() {
        let (_reader, writer) = pipe().unwrap();
        let mut command = Command::new("/nonexistent/program");
        start_alone(&mut command, writer.as_fd(), "/job_").unwrap();
    }
}
