// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process inherits besides its user: signals, limits, the file mode mask, and whether
//! the three standard descriptors are open.
//!
//! A caller could set them so that the privileged part fails at a chosen point, or writes a
//! message into a file of root. They are taken over before anything else happens, and given
//! back to the command.

use std::io;

use cabane_sys::privilege::{HeldSignals, hold_signals, release_signals};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    Resource, Rlimit, TimeStampCounterReadability, getrlimit, set_time_stamp_counter_readability,
    setrlimit, time_stamp_counter_readability, umask,
};
use rustix::stdio::{stderr, stdin, stdout};

/// Limits that could make a step fail.
const LIMITS: [Resource; 8] = [
    Resource::As,
    Resource::Cpu,
    Resource::Data,
    Resource::Fsize,
    Resource::Memlock,
    Resource::Nofile,
    Resource::Rttime,
    Resource::Stack,
];

/// What is needed, and harmless: descriptors for the images and what goes with them.
const DESCRIPTORS: u64 = 1024;

/// What was lifted, as it was: limits, and whether asking for the time ends the process
/// (`PR_SET_TSC`, which lasts over `exec`).
pub(crate) struct Limits {
    resources: [Option<Rlimit>; LIMITS.len()],
    clock: Option<TimeStampCounterReadability>,
}

impl Limits {
    /// Lifts the limits as far as the system allows. Nothing is allocated.
    pub(crate) fn lift() -> Self {
        let resources = LIMITS.map(|resource| {
            let inherited = getrlimit(resource);
            let wanted = if resource == Resource::Nofile {
                at_least(inherited, DESCRIPTORS)
            } else {
                Rlimit { current: None, maximum: None }
            };
            // Where that is refused the limit stays, and a step may fail cleanly.
            setrlimit(resource, wanted).is_ok().then_some(inherited)
        });
        // Only x86 has it.
        let clock = time_stamp_counter_readability().ok();
        let _ = set_time_stamp_counter_readability(TimeStampCounterReadability::Readable);
        Self { resources, clock }
    }

    /// Sets them as they were.
    pub(crate) fn give_back(self) {
        if let Some(inherited) = self.clock {
            let _ = set_time_stamp_counter_readability(inherited);
        }
        for (resource, limit) in LIMITS.into_iter().zip(self.resources) {
            if let Some(inherited) = limit {
                // Lowering is never refused.
                let _ = setrlimit(resource, inherited);
            }
        }
    }
}

/// What else was inherited.
pub(crate) struct Inherited {
    signals: HeldSignals,
    mask: Mode,
}

impl Inherited {
    /// Opens the standard descriptors that are closed, holds signals back and sets the file
    /// mode mask.
    pub(crate) fn take_over() -> io::Result<Self> {
        open_standard_descriptors()?;
        Ok(Self { signals: hold_signals()?, mask: umask(Mode::RWXG | Mode::RWXO) })
    }

    /// Gives signals and mask back.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        umask(self.mask);
        release_signals(&self.signals)
    }
}

/// What is opened later must not become the standard output or error. Which of them were closed
/// is the command's affair: it gets them closed.
fn open_standard_descriptors() -> io::Result<()> {
    // From the first on: what is opened gets the lowest number that is free.
    for descriptor in [stdin(), stdout(), stderr()] {
        if matches!(fcntl_getfd(descriptor), Err(Errno::BADF)) {
            let flags = OFlags::RDWR | OFlags::NOCTTY;
            let null = openat(CWD, c"/dev/null", flags, Mode::empty())?;
            fcntl_setfd(&null, FdFlags::CLOEXEC)?;
            // It stays until the command starts.
            std::mem::forget(null);
        }
    }
    Ok(())
}

fn at_least(limit: Rlimit, number: u64) -> Rlimit {
    let raised = |value: Option<u64>| value.map(|value| value.max(number));
    Rlimit { current: raised(limit.current), maximum: raised(limit.maximum) }
}
