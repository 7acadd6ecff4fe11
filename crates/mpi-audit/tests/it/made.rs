// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Outcomes made of figures.

use cabane_mpi_audit::benchmark::BenchmarkOutput;
use cabane_mpi_audit::judge::{
    Class, Floor, LATENCIES, Outcome, Reference, Verdict, Yardsticks, judge,
};

/// Processors of a node.
pub(crate) const PROCESSORS: usize = 2;

/// A run with these latencies, in microseconds.
pub(crate) fn ran(latencies: [f64; 4]) -> Outcome {
    ran_at(0.0, latencies)
}

/// A run with ranks at a distance, in microseconds; 0 for an unknown one.
pub(crate) fn ran_at(distance: f64, latencies: [f64; 4]) -> Outcome {
    let lines = LATENCIES.iter().zip(latencies);
    let lines: Vec<_> = lines
        .map(|(bytes, value)| {
            format!("latency {bytes} {value} {value} 100 {distance} {distance}\n")
        })
        .collect();
    let places = "size 2\nrank 0 vm 0 0-1\nrank 1 vm 1 0-1\nsum ok\n";
    Outcome::Ran(Box::new(BenchmarkOutput::from_output(&format!(
        "{places}{}done\n",
        lines.concat()
    ))))
}

pub(crate) fn verdicts(outcomes: &[Outcome], reference: Option<&Reference>) -> Vec<Verdict> {
    let floor = Floor::default();
    judge(outcomes, &Yardsticks { reference, kept: None, floor: &floor, processors: PROCESSORS })
}

/// The same on a node that was measured as well.
pub(crate) fn verdicts_with(outcomes: &[Outcome], floor: &Floor) -> Vec<Verdict> {
    judge(outcomes, &Yardsticks { reference: None, kept: None, floor, processors: PROCESSORS })
}

pub(crate) fn classes(outcomes: &[Outcome]) -> Vec<Class> {
    let all = verdicts(outcomes, None);
    all.iter().map(|verdict| verdict.class).collect()
}
