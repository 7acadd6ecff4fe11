// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How well the runs of an installation agree.

use serde::Serialize;

use super::peers::{LATENCIES, Latency, latencies, median};
use crate::benchmark::BenchmarkOutput;

/// How many times the best latency the second best has at most where they agree.
const AGREED: f64 = 1.25;

/// The latencies of the runs for one size, in microseconds. Those count in which the ranks were
/// as far apart as in the best one and had a processor each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The size.
    pub bytes: u64,
    /// How many runs.
    pub runs: usize,
    /// The best one.
    pub low: f64,
    /// The middle one.
    pub median: f64,
    /// The worst one.
    pub high: f64,
}

/// Returns the spread for each size that was measured.
pub fn spread(output: &BenchmarkOutput) -> Vec<Spread> {
    let of = |(bytes, all): (u64, Vec<Latency>)| {
        let alike = alike(&all);
        Some(Spread {
            bytes,
            runs: alike.len(),
            low: *alike.first()?,
            median: median(alike.clone())?,
            high: *alike.last()?,
        })
    };
    latencies(output).into_iter().filter_map(of).collect()
}

/// Whether the best latency of each size was reached a second time: another run would change
/// little.
pub fn is_settled(output: &BenchmarkOutput) -> bool {
    let all = latencies(output);
    LATENCIES.iter().all(|bytes| {
        let alike = all.get(bytes).map(|all| alike(all)).unwrap_or_default();
        matches!(alike.as_slice(), [first, second, ..] if *second <= first * AGREED)
    })
}

/// The latencies at the distance of the best one, in ascending order.
fn alike(all: &[Latency]) -> Vec<f64> {
    let best = all.iter().min_by(|a, b| a.microseconds.total_cmp(&b.microseconds));
    let alike = all.iter().filter(|one| best.is_some_and(|best| best.is_like(one)));
    let mut alike: Vec<_> = alike.map(|one| one.microseconds).collect();
    alike.sort_by(f64::total_cmp);
    alike
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(runs: &[[f64; 2]]) -> BenchmarkOutput {
        let lines = runs.iter().flat_map(|[distance, value]| {
            LATENCIES
                .map(|bytes| format!("latency {bytes} {value} {value} 9 {distance} {distance}\n"))
        });
        BenchmarkOutput::from_output(&lines.collect::<String>())
    }

    #[test]
    fn runs_agree_if_the_best_was_reached_twice_at_one_distance() {
        let once = output(&[[0.1, 1.0]]);
        let twice = output(&[[0.1, 1.0], [0.1, 5.0], [0.1, 1.2]]);
        let apart = output(&[[0.1, 1.0], [0.3, 1.1]]);
        let noisy = output(&[[0.1, 1.0], [0.1, 1.3]]);
        let turns = output(&[[9.0, 1.0], [9.0, 1.0]]);
        let seen = [&once, &twice, &apart, &noisy, &turns].map(is_settled);
        assert_eq!(seen, [false, true, false, false, false]);
    }

    #[test]
    fn the_spread_of_the_runs_leaves_out_other_distances() {
        let all = spread(&output(&[[0.1, 1.0], [0.1, 5.0], [0.1, 1.2], [0.3, 9.0]]));
        assert_eq!(all[0], Spread { bytes: 8, runs: 3, low: 1.0, median: 1.2, high: 5.0 });
    }
}
