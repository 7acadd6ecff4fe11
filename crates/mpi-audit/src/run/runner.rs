// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A place to compile and to run in, with nothing of the caller's environment in it but
//! what was requested.
//!
//! Everything that is started ends: at its own end, at the limit, or because it is too
//! loud. Its standard output and error go to files, so that an open pipe
//! blocks nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cabane_site::env_vars::CABANE_CHECK_RUN;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::leftovers::{end_marked, remove_shared_memory};

/// Where the programs of the system are.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How much is listened to.
const LOUDEST: u64 = 16 << 20;
/// How much of it is kept.
const MOST: u64 = 1 << 20;
/// How long a launcher may take to end its ranks.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; minus the number of the signal that ended it; `None` if it could not
    /// be started or was stopped.
    pub code: Option<i32>,
    /// Whether it was stopped at the limit.
    pub is_late: bool,
    /// What it wrote to its standard output.
    pub output: String,
    /// What it wrote to its standard error, or why it did not start.
    pub messages: String,
}

/// A directory to work in, and the environment of what is run there.
#[derive(Debug)]
pub struct Runner {
    directory: TempDir,
    variables: BTreeMap<String, String>,
    /// The limit for everything that is run.
    pub limit: Duration,
    /// What marks all that it runs: one run has a number behind it.
    mark: String,
    runs: AtomicU32,
}

impl Runner {
    /// Makes a directory below `parent`, which every node must see if runs are over several.
    ///
    /// `variables` are all that what is run will find, besides `PATH` where they have none.
    pub fn new(
        parent: &Path,
        mut variables: BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<Self> {
        // Short: sockets are put into it, and their paths may have a hundred letters.
        let directory = tempfile::Builder::new().prefix("mpi-").tempdir_in(parent)?;
        let mark = format!("{CABANE_CHECK_RUN}={}/", directory.path().display());
        variables.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
        // Open MPI wants one, and looks into it for settings that others do not have.
        let here = directory.path().display().to_string();
        variables.entry("HOME".to_owned()).or_insert_with(|| here.clone());
        variables.insert("LC_ALL".to_owned(), "C".to_owned());
        variables.entry("TMPDIR".to_owned()).or_insert(here);
        Ok(Self { directory, variables, limit, mark, runs: AtomicU32::new(0) })
    }

    /// The directory, which is removed in the end.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The `PATH` that everything starts with.
    pub fn path(&self) -> &str {
        self.variable("PATH").unwrap_or(PATH)
    }

    /// What a variable is set to.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Runs a command and ends all that came of it. Other threads can run others meanwhile.
    pub fn run(&self, command: &mut Command) -> Ended {
        let since = SystemTime::now() - Duration::from_secs(1);
        self.try_to_run(command, since).unwrap_or_else(|error| Ended {
            code: None,
            is_late: false,
            output: String::new(),
            messages: format!("cannot run `{}`: {error}", command.get_program().display()),
        })
    }

    fn try_to_run(&self, command: &mut Command, since: SystemTime) -> io::Result<Ended> {
        let mut output = tempfile::tempfile_in(self.directory())?;
        let mut messages = tempfile::tempfile_in(self.directory())?;
        let own: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        let mark = format!("{}{}/", self.mark, self.runs.fetch_add(1, Ordering::Relaxed));
        command.env_clear().envs(&self.variables).envs(own).envs(mark.split_once('='));
        let mut child = command
            .current_dir(self.directory())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(messages.try_clone()?)
            .spawn()?;
        let status = wait_until(&mut child, Instant::now() + self.limit, || {
            let length = |file: &File| file.metadata().map_or(0, |data| data.len());
            [&output, &messages].into_iter().all(|file| length(file) < LOUDEST)
        });
        if status.is_none() {
            // Launchers that get a signal to end know where their ranks are.
            signal_group(&child, Signal::TERM);
            let _ = wait_until(&mut child, Instant::now() + FAREWELL, || true);
        }
        signal_group(&child, Signal::KILL);
        end_marked(&mark);
        child.wait()?;
        remove_shared_memory(since);
        Ok(Ended {
            code: status.and_then(code),
            is_late: status.is_none(),
            output: read(&mut output)?,
            messages: read(&mut messages)?,
        })
    }
}

fn wait_until(
    child: &mut Child,
    end: Instant,
    is_bearable: impl Fn() -> bool,
) -> Option<ExitStatus> {
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end && is_bearable() => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The child may be gone; others of its group need not be.
fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| -signal))
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The directory is removed by itself; what runs from it must not be.
        end_marked(&self.mark);
        let _ = fs::remove_dir_all(self.directory.path());
    }
}

#[cfg(test)]
mod tests {
    use super::super::leftovers::marked;
    use super::*;

    fn runner(limit: Duration) -> Runner {
        Runner::new(Path::new("/tmp"), BTreeMap::new(), limit).unwrap()
    }

    fn shell(runner: &Runner, script: &str) -> Ended {
        runner.run(Command::new("/bin/sh").args(["-c", script]))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_is_heard_with_its_exit_code() {
        let ended = shell(&runner(LONG), "echo one; echo two >&2; exit 3");
        assert_eq!(
            (ended.code, ended.output.as_str(), ended.messages.as_str()),
            (Some(3), "one\n", "two\n")
        );
    }

    #[test]
    fn what_takes_too_long_is_ended_and_its_output_is_kept() {
        let ended = shell(&runner(Duration::from_millis(300)), "echo one; sleep 60");
        assert_eq!((ended.code, ended.is_late, ended.output.as_str()), (None, true, "one\n"));
    }

    #[test]
    fn who_hides_in_a_session_of_its_own_is_ended_as_well() {
        let runner = runner(LONG);
        shell(&runner, "setsid sleep 60 >&- 2>&- & setsid sh -c '(sleep 60 & sleep 60) &'");
        assert_eq!(marked(&runner.mark), []);
    }

    #[test]
    fn the_end_of_a_run_ends_no_other() {
        let runner = runner(LONG);
        let file = |name| runner.directory().join(name);
        let ended = std::thread::scope(|scope| {
            let script = "touch begun; until [ -e end ]; do sleep 0.01; done; echo whole";
            let other = scope.spawn(|| shell(&runner, script));
            while !file("begun").exists() && !other.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
            }
            shell(&runner, "true");
            fs::write(file("end"), "").unwrap();
            other.join().unwrap()
        });
        assert_eq!((ended.code, ended.output.as_str()), (Some(0), "whole\n"));
    }

    #[test]
    fn who_does_not_listen_to_the_first_signal_is_ended_by_the_second() {
        let begin = Instant::now();
        let script = "trap '' TERM; while :; do sleep 1; done";
        let ended = shell(&runner(Duration::from_millis(100)), script);
        assert!(ended.is_late && begin.elapsed() < LONG / 2);
    }

    #[test]
    fn who_never_stops_talking_is_ended() {
        let ended = shell(&runner(LONG), "yes");
        assert!(ended.is_late && ended.output.len() as u64 == MOST);
    }

    #[test]
    fn what_cannot_be_started_says_so() {
        let ended = runner(LONG).run(&mut Command::new("/nonexistent/mpiexec"));
        assert_eq!(
            (ended.code, ended.messages.as_str()),
            (None, "cannot run `/nonexistent/mpiexec`: No such file or directory (os error 2)")
        );
    }

    #[test]
    fn the_environment_of_the_caller_is_not_seen() {
        let ended = shell(&runner(LONG), "echo $CARGO_MANIFEST_DIR; echo $HOME");
        assert!(ended.output.starts_with("\n/tmp/mpi-"), "{}", ended.output);
    }

    #[test]
    fn the_directory_is_gone_in_the_end() {
        let runner = runner(LONG);
        let directory = runner.directory().to_owned();
        drop(runner);
        assert!(!directory.exists());
    }
}
