// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A file that changes as long as a download is under way, for those whom no lock tells.
//!
//! Its line says what its writer is about, on which kernel, and a random number, so that no two
//! lines are equal: one that is seen again was not written again. Times are not compared, since
//! clocks differ between hosts: a process that waits looks whether the line changes. The file is
//! opened and read anew each time, since network file systems look at the server then.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::disk;
use crate::locks::kernel_id;

const ALIVE: &str = "alive";
const MAX_SIZE: u64 = 4096;

/// How often the line changes.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// What the writer of a line is about.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum State {
    /// It wants to download, and looks whether others want to, too.
    Claims,
    /// It downloads.
    Downloads,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::Downloads => "downloads",
        }
    }
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line(String);

impl Line {
    /// Reads the line of a place; `None` if no one has begun there, or who had is done.
    pub(crate) fn of(place: &Path) -> Option<Self> {
        let bytes = disk::read(&place.join(ALIVE), MAX_SIZE).ok()?;
        Some(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns whether the writer may download already: a line that is being written is empty
    /// for an instant, and a download changes its line again and again.
    pub(crate) fn may_download(&self) -> bool {
        !self.0.starts_with(State::Claims.as_str())
    }

    /// Returns whether the writer was on this kernel, so that its lock says whether it lives.
    pub(crate) fn is_from_here(&self) -> bool {
        let kernel = self.0.split(' ').nth(1);
        kernel.is_some() && kernel == kernel_id().as_deref()
    }
}

pub(crate) fn write(place: &Path, state: State) {
    let (state, kernel) = (state.as_str(), kernel_id().unwrap_or_else(|| "-".to_owned()));
    let process = rustix::process::getpid();
    let random = RandomState::new().hash_one(state);
    let line = format!("{state} {kernel} {process} {random}\n");
    // Who cannot write it is taken for dead, and then the image is downloaded twice.
    let _ = fs::write(place.join(ALIVE), line);
}

/// Takes the line away: it is no use to wait any longer.
pub(crate) fn stop(place: &Path) {
    let _ = fs::remove_file(place.join(ALIVE));
}

/// Changes the line until it is dropped.
#[derive(Debug)]
pub struct KeepAlive {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAlive {
    pub(crate) fn every(beat: Duration, place: PathBuf) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let beats = move || loop {
            write(&place, State::Downloads);
            if stopped.recv_timeout(beat) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        };
        Self { stop: Some(stop), thread: thread::Builder::new().spawn(beats).ok() }
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A process that mounts afterwards must have no other thread.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
