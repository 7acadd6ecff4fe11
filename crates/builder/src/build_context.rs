// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a step has at hand while it is carried out.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_recipe::Recipe;
use rustix::fs::statvfs;
use rustix::process::Signal;

use crate::layout::Layout;
use crate::memory::Gauge;
use crate::process::{self, Follower};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, BuildRequest, Failure, Progress, Result, Step};

/// What programs write when a disk or a quota is full.
const FULL: [&str; 4] =
    ["No space left on device", "os error 28", "Disk quota exceeded", "os error 122"];

/// What is written when something was ended because memory ran out.
const KILLED: [&str; 4] = [
    "Killed signal terminated program",
    "Cannot allocate memory",
    "virtual memory exhausted",
    "out of memory allocating",
];

/// What a step has at hand.
pub(crate) struct BuildContext<'a> {
    pub(crate) request: &'a BuildRequest,
    pub(crate) layout: &'a Layout,
    pub(crate) recipe: &'a Recipe,
    pub(crate) step: &'a Step,
    pub(crate) progress: &'a mut dyn Progress,
    pub(crate) interrupt: &'a AtomicBool,
    /// Looks at how much memory is used, if the build is there.
    pub(crate) gauge: Option<&'a mut Gauge>,
}

impl BuildContext<'_> {
    /// Returns the log of the step.
    pub(crate) fn log(&self) -> PathBuf {
        self.layout.log(self.step.name)
    }

    /// Runs a program in a sandbox to its end.
    pub(crate) fn run(&mut self, sandbox: &Sandbox, invocation: &Invocation) -> Result<()> {
        self.follow(invocation, None, |log| sandbox.start(invocation, log))
    }

    /// As [`Self::run`], with an interpreter of the output of the program.
    pub(crate) fn run_heard(
        &mut self,
        sandbox: &Sandbox,
        invocation: &Invocation,
        listener: &mut dyn Listener,
    ) -> Result<()> {
        self.follow(invocation, Some(listener), |log| sandbox.start(invocation, log))
    }

    /// Runs a program of the system outside of any sandbox to its end, with further
    /// variables: for what needs the user's own access, such as private sources.
    pub(crate) fn run_outside(
        &mut self,
        invocation: &Invocation,
        variables: &[(&str, &OsStr)],
    ) -> Result<()> {
        self.follow(invocation, None, |log| invocation.start_outside(variables, log))
    }

    /// Runs programs that do not depend on each other at the same time, as many as the
    /// build may. When one fails, those that run still are ended.
    pub(crate) fn run_side_by_side(
        &mut self,
        sandbox: &Sandbox,
        invocations: &[Invocation],
    ) -> Result<()> {
        for some in invocations.chunks(self.request.jobs.max(1)) {
            let start = |invocation| self.start(invocation, |log| sandbox.start(invocation, log));
            let running: Vec<Running> = some.iter().map(start).collect::<Result<_, _>>()?;
            for (invocation, running) in some.iter().zip(running) {
                self.finish(invocation, running, None)?;
            }
        }
        Ok(())
    }

    /// Runs a program to its end that `start` starts with its output in a log.
    pub(crate) fn follow(
        &mut self,
        invocation: &Invocation,
        listener: Option<&mut dyn Listener>,
        start: impl FnOnce(&File) -> Result<Child>,
    ) -> Result<()> {
        let running = self.start(invocation, start)?;
        self.finish(invocation, running, listener)
    }

    fn start(
        &self,
        invocation: &Invocation,
        start: impl FnOnce(&File) -> Result<Child>,
    ) -> Result<Running> {
        self.check_interrupt()?;
        let path = self.log();
        let failed = || BuildError::file("write the log", &path);
        let log = open_log(&path, invocation).map_err(failed())?;
        let follower = Follower::new(&path).map_err(failed())?;
        let child = start(&log)?;
        Ok(Running { child, follower })
    }

    fn finish(
        &mut self,
        invocation: &Invocation,
        mut running: Running,
        mut listener: Option<&mut dyn Listener>,
    ) -> Result<()> {
        let path = self.log();
        let step = self.step;
        let progress = &mut *self.progress;
        let mut gauge = self.gauge.as_deref_mut();
        let mut show = |lines: &[String]| {
            if let Some(gauge) = &mut gauge {
                gauge.look();
            }
            let mut last = None;
            for line in lines {
                let is_heard =
                    listener.as_mut().is_some_and(|listener| listener.line(line, progress));
                last = if is_heard { None } else { Some(line) };
            }
            if let Some(line) = last {
                progress.output(step, line);
            }
        };
        let Running { child, follower } = &mut running;
        let ended = process::wait(child, follower, &mut show, self.interrupt);
        match ended.map_err(BuildError::file("wait for", &invocation.program))? {
            None => Err(BuildError::Interrupted),
            Some(status) if status.success() => Ok(()),
            // Ctrl-C reaches the program as well, and it may end first.
            Some(status) if was_interrupted(status) || self.interrupt.load(Ordering::Relaxed) => {
                Err(BuildError::Interrupted)
            }
            Some(status) => {
                let mut failure = Failure {
                    step: step.name,
                    package: None,
                    phase: None,
                    place: None,
                    command: invocation.shown(),
                    status,
                    tail: process::tail(&path),
                    log: path,
                };
                let is_full = says_full(&failure);
                if let Some(listener) = listener {
                    listener.blame(&mut failure);
                }
                Err(self.judge(failure, is_full))
            }
        }
    }

    fn judge(&self, failure: Failure, is_full: bool) -> BuildError {
        let is_full = is_full || says_full(&failure);
        let is_killed = says_killed(&failure);
        let failure = Box::new(failure);
        if let Some(memory) = &self.layout.memory {
            let is_fullest = || self.fullest_disk() == *memory;
            if is_killed || is_full && is_fullest() {
                return BuildError::MemoryFull { path: memory.clone(), failure: Some(failure) };
            }
        }
        if is_full {
            return BuildError::DiskFull { path: self.fullest_disk(), failure: Some(failure) };
        }
        BuildError::StepFailed(failure)
    }

    /// Returns the directory with the least space of those that a program fills.
    fn fullest_disk(&self) -> PathBuf {
        let free = |path: &&PathBuf| {
            let found = statvfs(path.as_path());
            found.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
        };
        let directories = [&self.layout.root, &self.request.cache_dir];
        let directories = directories.into_iter().chain(&self.layout.memory);
        let fullest = directories.min_by_key(free);
        fullest.unwrap_or(&self.layout.root).clone()
    }

    /// Fails if the caller wants the build to stop.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) { Err(BuildError::Interrupted) } else { Ok(()) }
    }
}

/// A program that was started. Nothing of it is left when this is dropped.
struct Running {
    child: Child,
    follower: Follower,
}

impl Drop for Running {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

/// Whether a program ended by the signal of Ctrl-C, or says so as shells do.
fn was_interrupted(status: ExitStatus) -> bool {
    let interrupt = Signal::INT.as_raw();
    status.signal() == Some(interrupt) || status.code() == Some(128 + interrupt)
}

fn says_full(failure: &Failure) -> bool {
    let is_full = |line: &String| FULL.iter().any(|text| line.contains(text));
    failure.tail.iter().any(is_full)
}

/// Whether memory ran out, as far as is known: the kernel says it to no one else.
fn says_killed(failure: &Failure) -> bool {
    let is_killed = |line: &String| KILLED.iter().any(|text| line.contains(text));
    let kill = Signal::KILL.as_raw();
    failure.status.signal() == Some(kill) || failure.tail.iter().any(is_killed)
}

/// Interprets the output of a program.
pub(crate) trait Listener {
    /// Takes a line; returns whether it was understood, and need not be shown.
    fn line(&mut self, line: &str, progress: &mut dyn Progress) -> bool;

    /// The program failed: completes what is reported about it.
    fn blame(&mut self, _failure: &mut Failure) {}
}

fn open_log(path: &Path, invocation: &Invocation) -> io::Result<File> {
    let mut log = OpenOptions::new().append(true).create(true).open(path)?;
    // The command is at the head of its output.
    writeln!(log, "$ {}", invocation.shown())?;
    Ok(log)
}
