// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Running two commands in turn and timing them.
//!
//! A command is started with `posix_spawn` and waited for; the time between is wall
//! time of the monotonic clock. Its variables and arguments are the same for every
//! sample. After each sample there is a short pause, in which what it left to the
//! kernel (a loop device, a FUSE program) can end without disturbing the next one.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::memory::peak_of;
use crate::request::PreparedRequest;
use crate::statistics::Summary;

/// Why something was not measured, as text for the report.
pub(crate) type NotMeasured = String;

const PAUSE: Duration = Duration::from_millis(3);

/// A command that is measured again and again.
pub(crate) struct Candidate {
    /// What it is called in the report.
    pub(crate) name: String,
    command: Result<Command, NotMeasured>,
    afterwards: Option<Command>,
    /// What the command inherits.
    _request: Option<PreparedRequest>,
}

impl Candidate {
    /// Names a command, or the reason why there is none.
    pub(crate) fn new(name: impl Into<String>, command: Result<Command, NotMeasured>) -> Self {
        let command = command.map(|mut command| {
            silence(&mut command);
            command
        });
        Self { name: name.into(), command, afterwards: None, _request: None }
    }

    /// Calls it something else.
    pub(crate) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Keeps open what the command inherits.
    pub(crate) fn keeping(self, request: PreparedRequest) -> Self {
        Self { _request: Some(request), ..self }
    }

    /// Returns the command, to be run in another way.
    pub(crate) fn into_command(self) -> Result<Command, NotMeasured> {
        self.command
    }

    /// Runs the command once and returns what it printed.
    pub(crate) fn output(&mut self) -> Result<Vec<u8>, NotMeasured> {
        let command = self.command.as_mut().map_err(|reason| reason.clone())?;
        let outcome = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        self.tidy_up();
        sleep(PAUSE);
        outcome
    }

    /// Names a command that tidies up after each sample; its time is not counted.
    pub(crate) fn tidied_by(mut self, mut command: Command) -> Self {
        silence(&mut command);
        self.afterwards = Some(command);
        self
    }

    /// Runs the command once and keeps what it says, so that a failure has a reason.
    pub(crate) fn probe(&mut self) -> Result<(), NotMeasured> {
        let command = self.command.as_mut().map_err(|reason| reason.clone())?;
        let outcome = finish(command.stderr(Stdio::piped()));
        command.stderr(Stdio::null());
        self.tidy_up();
        outcome.map(drop)
    }

    /// Runs the command once and returns its wall time.
    pub(crate) fn sample(&mut self) -> Result<Duration, NotMeasured> {
        let command = self.command.as_mut().map_err(|reason| reason.clone())?;
        let start = Instant::now();
        let status = command.spawn().and_then(|mut child| child.wait());
        let time = start.elapsed();
        self.tidy_up();
        sleep(PAUSE);
        match status {
            Ok(status) if status.success() => Ok(time),
            Ok(status) => Err(format!("{status} in one of the samples")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs the command once and returns the most memory that one of its processes had, in
    /// KiB.
    pub(crate) fn peak(&mut self) -> Result<u64, NotMeasured> {
        let command = self.command.as_mut().map_err(|reason| reason.clone())?;
        let outcome = peak_of(command);
        self.tidy_up();
        outcome
    }

    fn tidy_up(&mut self) {
        if let Some(command) = &mut self.afterwards {
            // What could not be tidied up makes the next sample fail, which is reported.
            let _ = command.status();
        }
    }
}

fn silence(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
}

/// Runs a command to its end; the error is the last line that it wrote.
pub(crate) fn finish(command: &mut Command) -> Result<Vec<u8>, NotMeasured> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    // Of an error with hints below it the first line tells most.
    let error = lines.clone().find(|line| line.starts_with("error"));
    Err(match error.or_else(|| lines.next_back()) {
        Some(line) => format!("{}: {line}", output.status),
        None => output.status.to_string(),
    })
}

/// How often two commands are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// Pairs that are not counted.
    pub(crate) warm_up: usize,
    /// Pairs that are.
    pub(crate) pairs: usize,
}

/// The wall times of two commands that ran in turn, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Pairs {
    /// Collects times that were taken elsewhere, in milliseconds.
    pub(crate) fn of(times: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (first, second) = times.into_iter().unzip();
        Self { first, second }
    }

    pub(crate) fn count(&self) -> usize {
        self.first.len()
    }

    pub(crate) fn first(&self) -> Option<Summary> {
        Summary::of(&self.first)
    }

    pub(crate) fn second(&self) -> Option<Summary> {
        Summary::of(&self.second)
    }

    /// Summarises the ratios within the pairs.
    pub(crate) fn ratio(&self) -> Option<Summary> {
        Summary::of(&self.each(|first, second| first / second))
    }

    /// Summarises the differences within the pairs.
    pub(crate) fn difference(&self) -> Option<Summary> {
        Summary::of(&self.each(|first, second| first - second))
    }

    fn each(&self, function: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let pairs = self.first.iter().zip(&self.second);
        pairs.map(|(&first, &second)| function(first, second)).collect()
    }
}

/// Runs two commands in turn.
pub(crate) fn alternate(
    first: &mut Candidate,
    second: &mut Candidate,
    rounds: Rounds,
) -> Result<Pairs, NotMeasured> {
    first.probe()?;
    if let Err(reason) = second.probe() {
        let names_it = reason.starts_with(&second.name);
        return Err(if names_it { reason } else { format!("{}: {reason}", second.name) });
    }
    for _ in 0..rounds.warm_up {
        first.sample()?;
        second.sample()?;
    }
    let mut pairs = Pairs::default();
    for _ in 0..rounds.pairs {
        pairs.first.push(milliseconds(first.sample()?));
        pairs.second.push(milliseconds(second.sample()?));
    }
    Ok(pairs)
}

/// Runs one command again and again and summarises its times, in milliseconds.
pub(crate) fn repeat(
    candidate: &mut Candidate,
    rounds: Rounds,
) -> Result<Option<Summary>, NotMeasured> {
    candidate.probe()?;
    for _ in 0..rounds.warm_up {
        candidate.sample()?;
    }
    let times: Result<Vec<f64>, NotMeasured> =
        (0..rounds.pairs).map(|_| Ok(milliseconds(candidate.sample()?))).collect();
    Ok(Summary::of(&times?))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Candidate {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Candidate::new("a script", Ok(command))
    }

    #[test]
    fn the_ratio_is_that_within_the_pairs() {
        let pairs = Pairs { first: vec![2.0, 30.0, 4.0], second: vec![1.0, 10.0, 4.0] };
        let median = pairs.ratio().unwrap().median;
        assert!((median - 2.0).abs() < 1e-12, "{median}");
    }

    #[test]
    fn a_command_that_fails_gives_its_last_line_as_the_reason() {
        let reason = shell("echo first >&2; echo last >&2; exit 3").probe().unwrap_err();
        assert_eq!(reason, "exit status: 3: last");
    }

    #[test]
    fn a_command_that_slept_was_measured_to_take_that_long() {
        let time = shell("sleep 0.05").sample().unwrap();
        assert!(time >= Duration::from_millis(50), "{time:?}");
    }

    #[test]
    fn a_command_that_is_missing_is_no_sample() {
        let reason = Candidate::new("x", Ok(Command::new("/no/such/program"))).probe().unwrap_err();
        assert!(reason.starts_with("cannot run /no/such/program"), "{reason}");
    }
}
