// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process inherits besides its user: signals, limits, the file mode mask.
//!
//! A caller could set them so that the privileged part fails at a chosen point. They
//! are taken over for its time and given back to the command.

use std::io;

use cabane_sys::privilege::{HeldSignals, hold_signals, release_signals};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Limits that could make a step fail.
const LIMITS: [Resource; 7] = [
    Resource::As,
    Resource::Cpu,
    Resource::Data,
    Resource::Fsize,
    Resource::Memlock,
    Resource::Nofile,
    Resource::Stack,
];

/// What is needed, and harmless: descriptors for the images and what goes with them.
const DESCRIPTORS: u64 = 1024;

/// What was inherited.
pub(crate) struct Surroundings {
    signals: HeldSignals,
    mask: Mode,
    limits: Vec<(Resource, Rlimit)>,
}

impl Surroundings {
    /// Holds signals back and sets the file mode mask.
    pub(crate) fn take_over() -> io::Result<Self> {
        Ok(Self {
            signals: hold_signals()?,
            mask: umask(Mode::RWXG | Mode::RWXO),
            limits: Vec::new(),
        })
    }

    /// Makes the room in which the limits are remembered, while they are in force.
    pub(crate) fn make_room(&mut self) -> io::Result<()> {
        self.limits
            .try_reserve_exact(LIMITS.len())
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Lifts the limits as far as the system allows.
    pub(crate) fn lift_limits(&mut self) {
        for resource in LIMITS {
            let inherited = getrlimit(resource);
            let wanted = if resource == Resource::Nofile {
                at_least(inherited, DESCRIPTORS)
            } else {
                Rlimit {
                    current: None,
                    maximum: None,
                }
            };
            // Where that is refused the limit stays, and a step may fail cleanly.
            if setrlimit(resource, wanted).is_ok() {
                self.limits.push((resource, inherited));
            }
        }
    }

    /// Sets the limits as they were.
    pub(crate) fn give_back_limits(&mut self) {
        for (resource, inherited) in self.limits.drain(..) {
            // Lowering is never refused.
            let _ = setrlimit(resource, inherited);
        }
    }

    /// Gives signals and mask back.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        umask(self.mask);
        release_signals(&self.signals)
    }
}

fn at_least(limit: Rlimit, number: u64) -> Rlimit {
    let raised = |value: Option<u64>| value.map(|value| value.max(number));
    Rlimit {
        current: raised(limit.current),
        maximum: raised(limit.maximum),
    }
}
