// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who is healthy enough to be compared with, and what they reach.

use std::collections::BTreeMap;

use crate::benchmark::{Kind, Said};

/// The sizes whose latencies are compared. They are sent in different ways: the first in a
/// slot of shared memory, the last by a copy from one process to the other.
pub const LATENCIES: [u64; 4] = [8, 4096, 32768, 1 << 20];

/// How many times the latency of the fastest a healthy installation has at most. Those
/// that are known to be healthy differ by less than 4, and those that send through the
/// network of a node to itself by more than 10 at the smallest size.
const HEALTHY: f64 = 6.0;

/// How many healthy installations there must be for a comparison.
pub(super) const ENOUGH: usize = 3;

/// What was measured for each of [`LATENCIES`], in microseconds.
pub type Latencies = BTreeMap<u64, f64>;

/// Takes the latencies from what was said; `None` unless all of them are there.
pub(super) fn latencies(said: &Said) -> Option<Latencies> {
    let of = |bytes: &u64| Some((*bytes, said.figure(Kind::Latency, *bytes)?.p10));
    LATENCIES.iter().map(of).collect()
}

/// What others are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// The median of the healthy installations for each size.
    pub latencies: Latencies,
    /// How many there were.
    pub count: usize,
}

/// Returns which installations are healthy: nowhere far from the fastest one.
///
/// An installation that is slow everywhere changes nothing for the others.
pub fn healthy(all: &[&Latencies]) -> Vec<bool> {
    let fastest = |bytes: &u64| {
        let values = all.iter().filter_map(|one| one.get(bytes).copied());
        values.fold(f64::INFINITY, f64::min)
    };
    let most: Latencies = LATENCIES
        .iter()
        .map(|bytes| (*bytes, fastest(bytes) * HEALTHY))
        .collect();
    let is_healthy =
        |one: &&Latencies| (one.iter()).all(|(bytes, value)| most.get(bytes) >= Some(value));
    all.iter().map(is_healthy).collect()
}

/// The medians of those that are healthy.
pub(super) fn base(all: &[&Latencies]) -> Base {
    let healthy = healthy(all);
    let good: Vec<_> = all
        .iter()
        .zip(healthy)
        .filter(|(_, is_good)| *is_good)
        .collect();
    let of = |bytes: &u64| {
        let values = good.iter().filter_map(|(one, _)| one.get(bytes).copied());
        Some((*bytes, median(values.collect())?))
    };
    Base {
        latencies: LATENCIES.iter().filter_map(of).collect(),
        count: good.len(),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values
        .get(half - 1)
        .map(|lower| f64::midpoint(*lower, upper))
}
