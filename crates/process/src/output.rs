// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Running a program for what it prints, within limits for its time and its output.

use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often it is looked whether a program has ended that left its output to others.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a killed program is waited for: the kernel may not be able to end it.
const FAREWELL: Duration = Duration::from_millis(100);

/// The limits for a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it must have ended.
    pub end: Instant,
    /// The most bytes that it may write to standard output, and to standard error.
    pub bytes: usize,
    /// Whether it gets a process group of its own, of which nothing outlives it. Without one it
    /// can read from the terminal of the user, and what it leaves in the background lives on.
    pub has_group: bool,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// It had not ended in time.
    #[error("it did not answer in time")]
    Late,
    /// It printed more than it may.
    #[error("its answer is too long")]
    TooMuch,
    /// It cannot be started.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// Its output cannot be read.
    #[error("its answer cannot be read: {0}")]
    Read(io::Error),
}

/// Runs a program to its end. `input`, which must be less than a pipe holds, is its standard
/// input; whether it is read is up to the program.
///
/// # Errors
///
/// [`OutputError`]; then the program is killed, with its group if it has one.
pub fn output_within(
    command: &mut Command,
    input: &[u8],
    limits: Limits,
) -> Result<Output, OutputError> {
    if Instant::now() >= limits.end {
        return Err(OutputError::Late);
    }
    if limits.has_group {
        command.process_group(0);
    }
    let (mut child, pipes) = start(command).map_err(OutputError::Start)?;
    let read = give(&mut child, input)
        .map_err(OutputError::Read)
        .and_then(|()| listen(&child, pipes, limits));
    // The child is not reaped yet, so that the number still names its group.
    if limits.has_group {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    } else if read.is_err() {
        let _ = child.kill();
    }
    let [stdout, stderr] = read.inspect_err(|_| {
        let end = Instant::now() + FAREWELL;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
            sleep(Duration::from_millis(1));
        }
    })?;
    let status = child.wait().map_err(OutputError::Read)?;
    Ok(Output { status, stdout, stderr })
}

/// One of the outputs.
struct Pipe {
    /// Nothing when all other ends are closed.
    reader: Option<PipeReader>,
    bytes: Vec<u8>,
}

fn start(command: &mut Command) -> io::Result<(Child, [Pipe; 2])> {
    let mut tries = 0;
    loop {
        let (output, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        let started = command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).spawn();
        // Else the ends for the child would be open here.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        match started {
            // Being written at this moment, by an update.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 20 => {
                tries += 1;
                sleep(Duration::from_millis(5));
            }
            outcome => {
                let pipe = |reader| Pipe { reader: Some(reader), bytes: Vec::new() };
                return Ok((outcome?, [output, errors].map(pipe)));
            }
        }
    }
}

fn give(child: &mut Child, input: &[u8]) -> io::Result<()> {
    match child.stdin.take().map(|mut pipe| pipe.write_all(input)) {
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Reads both pipes until the program has ended and nothing is left in them. What it left
/// behind may keep them open, and is not waited for.
fn listen(
    child: &Child,
    mut pipes: [Pipe; 2],
    limits: Limits,
) -> Result<[Vec<u8>; 2], OutputError> {
    loop {
        // Before the pipes are read: all that it wrote is in them by then.
        let has_ended = has_ended(child).map_err(OutputError::Read)?;
        let left = limits.end.saturating_duration_since(Instant::now());
        let time = if has_ended { Duration::ZERO } else { left.min(LOOK_AGAIN) };
        let has_read = read_ready(&mut pipes, time).map_err(OutputError::Read)?;
        if pipes.iter().any(|pipe| pipe.bytes.len() > limits.bytes) {
            return Err(OutputError::TooMuch);
        }
        if has_ended && !has_read {
            return Ok(pipes.map(|pipe| pipe.bytes));
        }
        if left.is_zero() {
            return Err(OutputError::Late);
        }
    }
}

/// Whether a child has ended; it is not reaped.
fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

/// Waits until something can be read, and reads it; returns whether there may be more.
fn read_ready(pipes: &mut [Pipe; 2], time: Duration) -> io::Result<bool> {
    let mut open: Vec<&mut Pipe> = pipes.iter_mut().filter(|pipe| pipe.reader.is_some()).collect();
    if open.is_empty() {
        // It closed everything and is about to end.
        sleep(time.min(Duration::from_millis(1)));
        return Ok(false);
    }
    let readers = open.iter().filter_map(|pipe| pipe.reader.as_ref());
    let mut watched: Vec<_> = readers.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    match poll(&mut watched, Timespec::try_from(time).ok().as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(true),
        Err(errno) => return Err(errno.into()),
    }
    let is_ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
    for (pipe, _) in open.iter_mut().zip(&is_ready).filter(|(_, ready)| **ready) {
        pipe.read()?;
    }
    Ok(is_ready.contains(&true))
}

impl Pipe {
    /// Reads once from a pipe that has something, or its end.
    fn read(&mut self) -> io::Result<()> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let mut buffer = [0; 8192];
        match reader.read(&mut buffer) {
            Ok(0) => self.reader = None,
            Ok(length) => self.bytes.extend(buffer.iter().take(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, input: &[u8], limit: Duration) -> Result<Output, OutputError> {
        let limits = Limits { end: Instant::now() + limit, bytes: 10_000, has_group: true };
        output_within(Command::new("/bin/sh").args(["-c", script]), input, limits)
    }

    #[test]
    fn both_outputs_and_the_code_are_returned() {
        let output = shell("cat; echo two >&2; exit 3", b"one\n", LONG).unwrap();
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"one\n"[..], &b"two\n"[..])
        );
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn what_is_left_in_the_background_ends_and_is_not_waited_for() {
        let begin = Instant::now();
        let output = shell("sleep 1234 & echo $!", b"", LONG).unwrap();
        let process = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let command = || std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        while command().starts_with(b"sleep") && begin.elapsed() < LONG / 2 {
            sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() < LONG / 2);
    }

    #[test]
    fn a_program_without_output_is_not_waited_for_after_its_time() {
        for script in ["sleep 60 & wait", "exec >&- 2>&-; sleep 60"] {
            let begin = Instant::now();
            let error = shell(script, b"", Duration::from_millis(100)).unwrap_err();
            assert!(matches!(error, OutputError::Late) && begin.elapsed() < LONG / 2, "{script}");
        }
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        let error = shell("while :; do echo more and more; done", b"", LONG).unwrap_err();
        assert!(matches!(error, OutputError::TooMuch));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_of_the_start() {
        let limits = Limits { end: Instant::now() + LONG, bytes: 1, has_group: false };
        let error = output_within(&mut Command::new("/nowhere"), b"", limits).unwrap_err();
        assert!(matches!(error, OutputError::Start(_)));
    }
}
