// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which way messages go, as far as it was counted.
//!
//! A factor says that a library is slower than others, and not why. Three causes can be
//! counted in the process itself: bytes that come over its own TCP sockets, copies that it
//! asks the kernel for, and how often it gives its processor back while it waits. The first
//! is an illness on one node. The others are choices of a library that works as it was made.

use std::fmt;

use serde::Serialize;

use crate::benchmark::BenchmarkOutput;

/// From how many times per message on something belongs to each message.
const EACH: f64 = 0.5;
/// Up to which size a message is waited for once.
const ONE_PIECE: u64 = 4096;
/// The smallest slots in which libraries that yield send larger messages.
const SLOT: u64 = 8192;
/// How much longer than the first a further piece may be waited for.
const LONGER: f64 = 1.5;

/// What a library does for a message of a size, on average over all runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Way {
    /// The size.
    pub bytes: u64,
    /// How often it gives its processor back while it waits for one.
    pub yields: f64,
    /// How often it has the kernel copy between the processes.
    pub copies: f64,
    /// How many bytes come over its TCP sockets.
    pub over_tcp: f64,
}

impl Way {
    /// Whether whole messages come over TCP.
    pub fn is_network(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below what is exact")]
        let whole = self.bytes as f64;
        self.over_tcp >= whole
    }

    /// Whether the kernel copies messages from one process to the other.
    pub fn is_copied_by_kernel(&self) -> bool {
        self.copies >= EACH
    }

    /// Whether a rank that waits gives its processor back.
    pub fn is_yielding(&self) -> bool {
        self.yields >= EACH
    }

    /// Whether it is known what a library does that takes so much longer than what others do,
    /// in microseconds, and that this is how it was made. `wait` is how much longer it takes to
    /// wait for one piece, as the smallest message tells.
    pub(super) fn is_a_choice(&self, longer: f64, wait: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below what is exact")]
        let pieces = self.bytes.div_ceil(SLOT) as f64;
        let is_waiting = self.bytes <= ONE_PIECE || longer <= pieces * wait * LONGER;
        let waits = self.is_yielding() && is_waiting;
        !self.is_network() && (self.is_copied_by_kernel() || waits)
    }
}

/// What was counted for a size; `None` if nothing was.
pub fn way(output: &BenchmarkOutput, bytes: u64) -> Option<Way> {
    let of_size = || output.trips.iter().filter(|trips| trips.bytes == bytes);
    let count: u64 = of_size().map(|trips| trips.count).sum();
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of some seconds are far below what is exact"
    )]
    let per_message = |all: u64| all as f64 / count as f64;
    (count > 0).then(|| Way {
        bytes,
        yields: per_message(of_size().map(|trips| trips.yields).sum()),
        copies: per_message(of_size().map(|trips| trips.copies).sum()),
        over_tcp: per_message(of_size().map(|trips| trips.over_tcp).sum()),
    })
}

/// Nothing where nothing out of the ordinary was counted.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_network() {
            return f.write_str(": they go through TCP sockets");
        }
        if self.is_copied_by_kernel() {
            f.write_str(": the kernel copies them from process to process")?;
        }
        if self.is_yielding() {
            let joint = if self.is_copied_by_kernel() { ", and" } else { ":" };
            write!(f, "{joint} a rank that waits gives its processor back")?;
        }
        Ok(())
    }
}
