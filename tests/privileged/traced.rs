// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Root traces a start of a user, which has its rights all the same, and interferes at any
//! system call.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::arena::{Arena, root};
use crate::start::Start;

/// The same start under `strace`, with options for it.
pub(crate) fn traced<'a>(start: &Start<'a>, user: u32, options: &[&str], log: &Path) -> Start<'a> {
    let (user_option, group_option) = (format!("--reuid={user}"), format!("--regid={user}"));
    let log = log.display().to_string();
    let mut arguments = vec!["strace", "-f", "-qq", "-o", &log];
    arguments.extend(options);
    arguments.extend(["setpriv", &user_option, &group_option, "--clear-groups"]);
    start.clone().user(0).through(&arguments)
}

/// A system call of the helper: the how manieth of its name since the tracing began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) name: String,
    when: usize,
}

impl Call {
    /// The first call of a name.
    pub(crate) fn first(name: &str) -> Self {
        Self { name: name.to_owned(), when: 1 }
    }

    /// Tells whether it is one of the first or last few of its name.
    pub(crate) fn is_among(&self, calls: &[Self], few: usize) -> bool {
        let same = |call: &&Self| call.name == self.name;
        let (before, after) = (
            calls.iter().filter(same).filter(|call| call.when < self.when),
            calls.iter().filter(same).filter(|call| call.when > self.when),
        );
        before.count() < few || after.count() < few
    }

    /// What `strace` does at this call.
    pub(crate) fn inject(&self, what: &str) -> String {
        format!("inject={}:{what}:when={}", self.name, self.when)
    }
}

/// Traces a start that works, and returns the system calls of the helper before the command.
pub(crate) fn calls(arena: &Arena, start: &Start<'_>) -> Vec<Call> {
    let log = arena.world.path("calls");
    traced(start, arena.user(), &[], &log).finish().success();
    let text = fs::read_to_string(log).unwrap();
    let helper = format!("execve(\"{}\"", arena.helper.display());
    let (mut counts, mut calls, mut programs) = (BTreeMap::new(), Vec::new(), 0);
    for line in text.lines() {
        let (process, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        let Some((name, _)) = call.split_once('(') else {
            continue;
        };
        if name.contains(' ') {
            continue;
        }
        let count = counts.entry((process.to_owned(), name.to_owned())).or_insert(0);
        *count += 1;
        let is_program = name == "execve" && call.ends_with("= 0");
        programs += usize::from(is_program && (programs > 0 || call.starts_with(&helper)));
        if programs == 1 && !call.starts_with(&helper) {
            calls.push(Call { name: name.to_owned(), when: *count });
        }
        if programs > 1 {
            break;
        }
    }
    assert!(calls.len() > 20, "{text}");
    calls
}

/// A helper that root has stopped at a system call, as its user can who may freeze a control
/// group.
pub(crate) struct Stopped {
    strace: Child,
    /// The process.
    pub(crate) process: u32,
}

impl Stopped {
    /// Starts, and waits for the stop. None if there was none.
    pub(crate) fn at(arena: &Arena, start: &Start<'_>, call: &Call) -> Option<Self> {
        let log: PathBuf = arena.world.path("stopped");
        let _ = fs::remove_file(&log);
        let only = format!("trace={}", call.name);
        let inject = call.inject("signal=STOP");
        let options = ["-e", &only, "-e", "signal=SIGSTOP", "-e", &inject];
        let start = traced(start, arena.user(), &options, &log);
        let mut strace =
            start.process().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        loop {
            if let Some(process) = stopped(&log) {
                return Some(Self { strace, process });
            }
            if strace.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(begin.elapsed() < Duration::from_secs(10), "{call:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lets it go on, and waits for its end.
    pub(crate) fn go_on(mut self) {
        root(&format!("kill -CONT {}", self.process));
        self.strace.wait().unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

fn stopped(log: &Path) -> Option<u32> {
    let text = fs::read_to_string(log).ok()?;
    let line = text.lines().find(|line| line.contains("stopped by SIGSTOP"))?;
    line.split(' ').next()?.parse().ok()
}
