// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Processes that prepare themselves before they start a program, or that
//! answer a question and end.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, WaitOptions, kill_process_group, setpgid, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::alone::close_all_with_exec;
use crate::as_user::{User, become_user};
use crate::copy::{copy_process, exit, run_in_copy, wait_for};

/// Lets `prepare` run in the child of a command, between fork and exec.
///
/// The closure runs in a copy of the process that has one thread. It may make
/// system calls and allocate (the C libraries keep their allocator usable across
/// fork), but must not print, and must not wait for locks that another thread may
/// have held. An error it returns is the error of `spawn`.
pub fn prepare_child<F>(command: &mut Command, prepare: F) -> &mut Command
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    // SAFETY: the closure keeps to what is written above; every caller in this
    // workspace passes system calls and paths made beforehand.
    unsafe { command.pre_exec(prepare) }
}

/// Starts a program that no one waits for: not a child of the caller, in a
/// session of its own, with the given descriptors open and no others but an
/// empty standard input, output and error.
///
/// Being no child matters: the caller goes on to become the user's command,
/// which must not find a stranger among its children.
///
/// # Errors
///
/// Those of fork and exec, `ENOENT` if the program does not exist.
pub fn start_detached(command: &mut Command, keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let keep = numbers_of(keep);
    alone(command);
    prepare_child(command, move || {
        setsid()?;
        // SAFETY: in the only thread of a fresh child; the parent half leaves at
        // once and runs no destructors.
        if unsafe { copy_process() }?.is_some() {
            exit(0);
        }
        keep_open(&keep)
    });
    command.spawn()?.wait()?;
    Ok(())
}

/// Starts a program as a user, for a process of root that may have several threads: a child of
/// this process, in a session of its own, with the given descriptors open and no others but an
/// empty standard input, output and error. Returns its number; no one waits for it.
///
/// # Errors
///
/// Those of fork, of becoming the user, and of exec.
pub fn start_child_as(
    command: &mut Command,
    keep: &[BorrowedFd<'_>],
    user: &User,
) -> io::Result<u32> {
    let user = user.clone();
    let keep = numbers_of(keep);
    alone(command);
    prepare_child(command, move || {
        setsid()?;
        // Daemons are often kept from being killed where memory is short. Where there is no such
        // file, neither is this one.
        let _ = fs::write("/proc/self/oom_score_adj", "0");
        become_user(&user)?;
        close_all_with_exec()?;
        keep_open(&keep)
    });
    Ok(command.spawn()?.id())
}

fn alone(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
}

fn numbers_of(descriptors: &[BorrowedFd<'_>]) -> Vec<RawFd> {
    descriptors.iter().map(AsRawFd::as_raw_fd).collect()
}

fn keep_open(descriptors: &[RawFd]) -> io::Result<()> {
    descriptors.iter().try_for_each(|number| {
        // SAFETY: the descriptor is open: the caller borrows it until spawn returns.
        Ok(fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*number) }, FdFlags::empty())?)
    })
}

/// Runs `work` in a copy of this process, which must have one thread. The copy is no child of it,
/// has a session of its own, and its standard input, output and error are `/dev/null`.
///
/// # Errors
///
/// Those of fork.
pub fn stay_behind(work: impl FnOnce()) -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: the copies end with the closure.
    let child = unsafe {
        run_in_copy(|| {
            if setsid().is_ok() && matches!(copy_process(), Ok(None)) {
                let _ = dup2_stdin(&nothing).and_then(|()| dup2_stdout(&nothing));
                let _ = dup2_stderr(&nothing);
                work();
            }
        })
    }?;
    wait_for(child)
}

/// Runs `answer` in a copy of this process and returns the bytes it gave.
///
/// Whatever the closure does to namespaces and mounts ends with the copy. The
/// rules of [`prepare_child`] hold for it. The first byte tells an answer from an
/// error, whose text is passed on.
///
/// # Errors
///
/// Those of pipe and fork; the closure's own, as text; and that the copy ended
/// without an answer.
pub fn ask<F>(answer: F) -> io::Result<Result<Vec<u8>, String>>
where
    F: FnOnce() -> Result<Vec<u8>, String>,
{
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the child runs only `answer` and ends by exit.
    match unsafe { copy_process() }? {
        None => {
            drop(reader);
            give(writer, std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer)));
            exit(0)
        }
        Some(child) => {
            drop(writer);
            let mut bytes = Vec::new();
            let read = File::from(reader).read_to_end(&mut bytes);
            wait_for(child)?;
            read?;
            understand(&bytes)
        }
    }
}

/// As [`ask`], but waits no longer than `limit`.
///
/// For questions that may never be answered, such as those to a file system whose
/// server is gone. The copy has no standard input, output or error and is in a process
/// group of its own, which is killed when the time is over. A process that the kernel
/// does not let die is left behind: it holds nothing that someone waits for.
///
/// # Errors
///
/// As [`ask`]; `TimedOut` when the time is over.
pub fn ask_within<F>(limit: Duration, answer: F) -> io::Result<Result<Vec<u8>, String>>
where
    F: FnOnce() -> Result<Vec<u8>, String>,
{
    let end = Instant::now() + limit;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    let (mut reader, writer) = UnixStream::pair()?;
    // SAFETY: the child runs only `answer` and ends by exit.
    match unsafe { copy_process() }? {
        None => {
            drop(reader);
            let alone = || {
                setpgid(None, None)?;
                dup2_stdin(&nothing)?;
                dup2_stdout(&nothing)?;
                dup2_stderr(&nothing)
            };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                alone().map_err(|errno| errno.to_string())?;
                answer()
            }));
            give(writer.into(), outcome);
            exit(0)
        }
        Some(child) => {
            drop(writer);
            let read = read_until(&mut reader, end);
            // Set by both, so that the order does not matter.
            let _ = setpgid(Some(child), Some(child));
            // Its own children end with it; there may be none of them any more.
            let _ = kill_process_group(child, Signal::KILL);
            match read {
                Ok(bytes) => {
                    wait_for(child)?;
                    understand(&bytes)
                }
                Err(error) => {
                    // Not waited for: that could take just as long.
                    let _ = waitpid(Some(child), WaitOptions::NOHANG);
                    Err(error)
                }
            }
        }
    }
}

/// Reads to the end of the stream, which must come in time.
fn read_until(reader: &mut UnixStream, end: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        reader.set_read_timeout(Some(left))?;
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes.extend(buffer.iter().take(length)),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {}
                _ => return Err(error),
            },
        }
    }
}

fn understand(bytes: &[u8]) -> io::Result<Result<Vec<u8>, String>> {
    match bytes.split_first() {
        Some((0, rest)) => Ok(Ok(rest.to_vec())),
        Some((_, rest)) => Ok(Err(String::from_utf8_lossy(rest).into_owned())),
        None => Err(io::Error::other("the copy of the process ended without an answer")),
    }
}

fn give(writer: OwnedFd, outcome: std::thread::Result<Result<Vec<u8>, String>>) {
    let (kind, bytes) = match outcome {
        Ok(Ok(bytes)) => (0, bytes),
        Ok(Err(text)) => (1, text.into_bytes()),
        Err(_) => (1, b"the copy of the process panicked".to_vec()),
    };
    let mut writer = File::from(writer);
    // If the parent is gone there is nowhere to report.
    let _ = writer.write_all(&[kind]).and_then(|()| writer.write_all(&bytes));
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_answer_comes_back_byte_for_byte() {
        let answer = ask(|| Ok(vec![0, 1, 2, 255])).unwrap();
        assert_eq!(answer, Ok(vec![0, 1, 2, 255]));
    }

    #[test]
    fn a_panic_of_the_child_process_is_an_error_and_not_a_crash() {
        let answer = ask(|| panic!("no")).unwrap();
        assert_eq!(answer, Err("the copy of the process panicked".to_owned()));
    }

    #[test]
    fn a_process_killed_before_it_answers_is_noticed() {
        let error = ask(|| {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
            Ok(Vec::new())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "the copy of the process ended without an answer");
    }

    #[test]
    fn who_does_not_answer_in_time_is_not_waited_for() {
        let begin = Instant::now();
        let error = ask_within(Duration::from_millis(50), || {
            std::thread::sleep(Duration::from_secs(60));
            Ok(Vec::new())
        })
        .unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::TimedOut && begin.elapsed() < Duration::from_secs(30)
        );
    }

    #[test]
    fn an_answer_in_time_comes_back_whole() {
        let long = vec![7; 1_000_000];
        let answer = ask_within(Duration::from_secs(60), || Ok(long.clone())).unwrap();
        assert_eq!(answer, Ok(long));
    }

    #[test]
    fn a_child_that_becomes_a_user_has_the_descriptors_that_were_kept_and_no_others() {
        if !rustix::process::geteuid().is_root() {
            cabane_testkit::not_run!("only root can become another user");
        }
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (_other, _inherited) = rustix::pipe::pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        // No pipe: the shell has it open for a moment.
        let script = "exec >&$0; id -u; cat /proc/self/oom_score_adj; ls /proc/$$/fd; exit 0";
        command.args(["-c", script, &writer.as_raw_fd().to_string()]);
        let user = User { user: 61234, group: 61235, groups: Vec::new() };
        start_child_as(&mut command, &[writer.as_fd()], &user).unwrap();
        drop(writer);
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // The standard ones, and the one that was kept.
        assert_eq!((&lines[..2], lines[2..].len()), (&["61234", "0"][..], 4), "{text}");
    }

    #[test]
    fn a_missing_program_is_reported_by_start_detached() {
        let error = start_detached(&mut Command::new("/nonexistent/program"), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
