// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the node itself does without MPI: the only thing to compare with that no installation
//! changes.
//!
//! Load makes it slower and never faster, so the best of all measurements counts.

use serde::{Deserialize, Serialize};

use super::peers::{Latency, is_taking_turns, usable};
use crate::benchmark::Figure;

/// The message that is a word: the ranks measure it themselves, at the same moment.
const WORD: u64 = 8;

/// Messages between two processors of the node, several times during an audit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Through shared memory.
    pub shared: Vec<Figure>,
    /// Through TCP.
    pub tcp: Vec<Figure>,
}

impl Floor {
    /// Adds what was measured at another moment.
    pub fn add(&mut self, other: Self) {
        self.shared.extend(other.shared);
        self.tcp.extend(other.tcp);
    }

    /// Returns what was measured, with the names of the ways.
    pub fn ways(&self) -> impl Iterator<Item = (&'static str, &[Figure])> {
        let ways = [("shared memory", self.shared.as_slice()), ("TCP", self.tcp.as_slice())];
        ways.into_iter().filter(|(_, figures)| !figures.is_empty())
    }

    /// Returns the best figure of a size.
    pub fn best(figures: &[Figure], bytes: u64) -> Option<&Figure> {
        let all = figures.iter().filter(|figure| figure.bytes == bytes);
        all.filter(|figure| !is_taking_turns(figure)).min_by(|a, b| a.p10.total_cmp(&b.p10))
    }

    /// Returns in which part of the time, at worst, others had the processors.
    pub fn waited(&self) -> Option<f64> {
        let all = self.shared.iter().chain(&self.tcp);
        all.filter_map(|figure| figure.waited).reduce(f64::max)
    }

    /// Returns whether others had the processors during more than half of the measurements.
    pub fn is_disturbed(&self) -> bool {
        let all = self.shared.iter().filter(|figure| figure.is_disturbed()).count();
        all * 2 > self.shared.len()
    }

    /// Returns what a message takes through shared memory between ranks that are as far apart
    /// as these, in microseconds; `None` for ranks on different nodes.
    pub(super) fn at(&self, bytes: u64, like: &Latency) -> Option<f64> {
        let distance = like.distance?;
        if bytes == WORD {
            return Some(distance);
        }
        let all = usable(self.shared.iter().filter(|figure| figure.bytes == bytes));
        let scaled = |one: &Latency| one.microseconds * like.times_as_far_as(one);
        let alike = all.iter().filter(|one| one.is_like(like)).map(|one| one.microseconds);
        alike.reduce(f64::min).or_else(|| all.iter().map(scaled).reduce(f64::min))
    }
}
