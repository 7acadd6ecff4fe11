// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking programs: in an empty environment, for a limited time, with a limit on what
//! is read. A program that does not keep to it is ended with everything it started.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its output and its messages.
    pub(crate) text: String,
    /// Whether its exit status is success.
    pub(crate) is_success: bool,
}

/// Why a program was not listened to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("it did not answer in time")]
    Late,
    #[error("it said too much")]
    Endless,
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    #[error("its answer cannot be read: {0}")]
    Read(io::Error),
}

/// Asks a program.
pub(crate) fn ask(
    program: &Path,
    arguments: &[&str],
    end: Instant,
    most: usize,
) -> Result<Answer, AskError> {
    if Instant::now() >= end {
        return Err(AskError::Late);
    }
    let (mut reader, mut child) = start(program, arguments)?;
    let heard = listen(&mut reader, end, most).and_then(|text| {
        let is_success = wait(&mut child, end)?;
        Ok(Answer { text, is_success })
    });
    // Also after a good answer: what was left behind in the background ends as well.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if heard.is_err() {
        // Not waited for at length: the kernel may not be able to end it.
        let _ = wait(&mut child, Instant::now() + Duration::from_millis(100));
    }
    heard
}

fn start(program: &Path, arguments: &[&str]) -> Result<(PipeReader, Child), AskError> {
    let mut tries = 0;
    loop {
        let (reader, writer) = io::pipe().map_err(AskError::Start)?;
        let messages = writer.try_clone().map_err(AskError::Start)?;
        let started = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LC_ALL", "C")
            .env("HOME", "/nonexistent")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(messages)
            .spawn();
        match started {
            Ok(child) => return Ok((reader, child)),
            // Being written at this moment, by an update.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 20 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(AskError::Start(error)),
        }
    }
}

fn listen(reader: &mut PipeReader, end: Instant, most: usize) -> Result<String, AskError> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AskError::Late);
        }
        let time = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(reader, PollFlags::IN)], time.as_ref()) {
            Ok(0) => return Err(AskError::Late),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(AskError::Read(errno.into())),
        }
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(length) => bytes.extend(buffer.iter().take(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AskError::Read(error)),
        }
        if bytes.len() > most {
            return Err(AskError::Endless);
        }
    }
}

/// Waits for the end of a program that has closed its output.
fn wait(child: &mut Child, end: Instant) -> Result<bool, AskError> {
    let mut pause = Duration::from_micros(100);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if Instant::now() >= end => return Err(AskError::Late),
            Ok(None) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Err(error) => return Err(AskError::Read(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Answer, AskError> {
        let end = Instant::now() + limit;
        ask(Path::new("/bin/sh"), &["-c", script], end, 10_000)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_messages_are_heard_both() {
        let answer = shell("echo one; echo two >&2", LONG).unwrap();
        assert_eq!((answer.text.as_str(), answer.is_success), ("one\ntwo\n", true));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let begin = Instant::now();
        let error = shell("sleep 60 & wait", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, AskError::Late) && begin.elapsed() < LONG / 2);
    }

    #[test]
    fn who_closes_the_output_and_stays_is_not_waited_for() {
        let begin = Instant::now();
        let error = shell("exec >&- 2>&-; sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, AskError::Late) && begin.elapsed() < LONG / 2);
    }

    #[test]
    fn who_does_not_stop_is_interrupted() {
        let error = shell("while :; do echo more and more; done", LONG).unwrap_err();
        assert!(matches!(error, AskError::Endless));
    }

    #[test]
    fn what_the_caller_has_in_its_environment_is_not_seen() {
        let answer = shell("echo $CARGO_MANIFEST_DIR$HOME", LONG).unwrap();
        assert_eq!(answer.text, "/nonexistent\n");
    }
}
