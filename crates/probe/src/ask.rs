// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking programs: in an empty environment, for a limited time, with a limit on what
//! is read. A program that does not keep to it is ended with everything it started.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use cabane_process::output::{Limits, OutputError, output_within};

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its output and its messages.
    pub(crate) text: String,
    /// Whether its exit status is success.
    pub(crate) is_success: bool,
}

/// Asks a program.
pub(crate) fn ask(
    program: &Path,
    arguments: &[&str],
    end: Instant,
    most: usize,
) -> Result<Answer, OutputError> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("LC_ALL", "C")
        .env("HOME", "/nonexistent")
        .current_dir("/");
    let output = output_within(&mut command, b"", Limits { end, bytes: most, has_group: true })?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Answer { text, is_success: output.status.success() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Answer, OutputError> {
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
        assert!(matches!(error, OutputError::Late) && begin.elapsed() < LONG / 2);
    }

    #[test]
    fn who_closes_the_output_and_stays_is_not_waited_for() {
        let begin = Instant::now();
        let error = shell("exec >&- 2>&-; sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, OutputError::Late) && begin.elapsed() < LONG / 2);
    }

    #[test]
    fn who_does_not_stop_is_interrupted() {
        let error = shell("while :; do echo more and more; done", LONG).unwrap_err();
        assert!(matches!(error, OutputError::TooMuch));
    }

    #[test]
    fn what_the_caller_has_in_its_environment_is_not_seen() {
        let answer = shell("echo $CARGO_MANIFEST_DIR$HOME", LONG).unwrap();
        assert_eq!(answer.text, "/nonexistent\n");
    }
}
