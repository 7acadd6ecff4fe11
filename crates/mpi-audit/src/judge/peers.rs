// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who is healthy enough to be compared with, and what they reach.
//!
//! Only latencies between ranks that were equally far apart are compared. Two processors
//! may share a core or not, and on a virtual machine this changes by itself: a factor of
//! three between two runs of one library.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::benchmark::{BenchmarkOutput, Figure, Kind};

/// The sizes whose latencies are compared. They are sent in different ways: the first in a
/// slot of shared memory, the last by a copy from one process to the other.
pub const LATENCIES: [u64; 4] = [8, 4096, 32768, 1 << 20];

/// How many times the latency of the fastest a healthy installation has at most. Those
/// that are known to be healthy differ by up to 7, and those that send through the network
/// of a node to itself by more than 15 at the smallest size.
pub(super) const HEALTHY: f64 = 10.0;
/// From here on there is something better.
pub(super) const SUBOPTIMAL: f64 = 1.8;

/// How many healthy installations there must be for a comparison.
pub(super) const ENOUGH: usize = 3;

/// How different distances are that count as equal.
const ALIKE: f64 = 1.6;

/// From which distance on, in microseconds, the ranks took turns on one processor: a busy
/// system does that for a while. Processors of one node are nearer.
const TURNS: f64 = 2.0;

/// A latency, and how far apart the ranks were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The latency.
    pub microseconds: f64,
    /// How long a word of memory took from one rank to the other, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Whether others had the processors while it was measured.
    #[serde(skip)]
    pub is_disturbed: bool,
}

impl Latency {
    /// Whether the ranks were as far apart as those of the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self.distance, other.distance) {
            (Some(mine), Some(other)) => mine <= other * ALIKE && other <= mine * ALIKE,
            // Where one does not know, it may be.
            _ => true,
        }
    }

    /// How many times as long it may take as the other, because its ranks were farther
    /// apart. Latencies grow less than distances, and those of nearer ranks are not longer:
    /// nothing is called slow that is not.
    pub(super) fn times_as_far_as(&self, other: &Self) -> f64 {
        match (self.distance, other.distance) {
            (Some(mine), Some(theirs)) if !self.is_like(other) => (mine / theirs).max(1.0),
            _ => 1.0,
        }
    }
}

/// What was measured for each of [`LATENCIES`], one of each run in which the ranks had a
/// processor each.
pub type Latencies = BTreeMap<u64, Vec<Latency>>;

impl From<&Figure> for Latency {
    fn from(figure: &Figure) -> Self {
        Self {
            microseconds: figure.p10,
            distance: figure.distance,
            is_disturbed: figure.is_disturbed(),
        }
    }
}

/// Takes the latencies from what was reported.
pub(super) fn latencies(output: &BenchmarkOutput) -> Latencies {
    let of = |bytes: &u64| (*bytes, usable(output.figures(Kind::Latency, *bytes)));
    LATENCIES.iter().map(of).collect()
}

/// Those that were measured while each side had a processor.
pub(super) fn usable<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<Latency> {
    figures.filter(|figure| !is_taking_turns(figure)).map(Latency::from).collect()
}

/// Whether both sides had one processor together.
pub(super) fn is_taking_turns(figure: &Figure) -> bool {
    figure.distance.is_some_and(|time| time >= TURNS)
}

/// The best of an installation at the distance of another latency.
fn best(one: &Latencies, bytes: u64, like: &Latency) -> Option<f64> {
    let all = one.get(&bytes)?.iter();
    let alike = all.filter(|latency| latency.is_like(like));
    alike.map(|latency| latency.microseconds).reduce(f64::min)
}

/// What other settings change for messages of a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The size.
    pub bytes: u64,
    /// What was reached without them, in microseconds.
    pub before: f64,
    /// What was reached with them, at the same distance.
    pub after: f64,
}

impl Change {
    fn factor(&self) -> f64 {
        self.before / self.after
    }
}

/// What other settings change at a size, if it is worth telling: more than what makes an
/// installation suboptimal there, and no other size loses as much.
///
/// `None` also where the ranks were at no distance at which they were without them.
pub fn change(bytes: u64, before: &BenchmarkOutput, after: &BenchmarkOutput) -> Option<Change> {
    let (before, after) = (latencies(before), latencies(after));
    let at = |bytes: u64| {
        let each = after.get(&bytes)?.iter().filter_map(|latency| {
            Some(Change {
                bytes,
                before: best(&before, bytes, latency)?,
                after: latency.microseconds,
            })
        });
        each.max_by(|a, b| a.factor().total_cmp(&b.factor()))
    };
    let loses = |bytes: &u64| at(*bytes).is_some_and(|one| one.factor() * SUBOPTIMAL < 1.0);
    let change = at(bytes).filter(|one| one.factor() > SUBOPTIMAL)?;
    (!LATENCIES.iter().any(loses)).then_some(change)
}

/// What others are compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peers<'a> {
    pub(super) healthy: Vec<&'a Latencies>,
}

impl<'a> Peers<'a> {
    /// Finds out who is healthy: at no size far from the fastest one.
    ///
    /// An installation that is slow everywhere changes nothing for the others.
    pub(super) fn among(all: &'a [Latencies]) -> Self {
        let is_near = |bytes: u64, latency: &Latency| {
            let fastest = all.iter().filter_map(|one| best(one, bytes, latency));
            let fastest = fastest.fold(f64::INFINITY, f64::min);
            latency.microseconds <= fastest * HEALTHY
        };
        let is_healthy = |one: &&Latencies| {
            let mut measured = one.iter().filter(|(_, all)| !all.is_empty()).peekable();
            measured.peek().is_some()
                && measured.all(|(bytes, all)| all.iter().any(|one| is_near(*bytes, one)))
        };
        Self { healthy: all.iter().filter(is_healthy).collect() }
    }

    /// The median of those at the distance of this latency, and how many they are.
    pub(super) fn at(&self, bytes: u64, like: &Latency) -> Option<(f64, usize)> {
        let values = self.healthy.iter().filter_map(|one| best(one, bytes, like));
        let values: Vec<_> = values.collect();
        let count = values.len();
        Some((median(values)?, count))
    }

    /// The median for a size at the distance where there are most; the largest of several.
    pub(super) fn most_common(&self, bytes: u64) -> Option<Latency> {
        let all = self.healthy.iter().filter_map(|one| one.get(&bytes)).flatten();
        let at = all.filter_map(|latency| {
            let (median, count) = self.at(bytes, latency)?;
            Some((count, latency.distance, median))
        });
        let order = |a: &(usize, Option<f64>, f64), b: &(usize, Option<f64>, f64)| {
            let distance = |distance: Option<f64>| distance.unwrap_or_default();
            a.0.cmp(&b.0).then(distance(a.1).total_cmp(&distance(b.1)))
        };
        let (_, distance, microseconds) = at.max_by(order)?;
        Some(Latency { microseconds, distance, is_disturbed: false })
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values.get(half - 1).map(|lower| f64::midpoint(*lower, upper))
}
