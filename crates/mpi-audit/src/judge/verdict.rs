// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What puts an installation into a class.
//!
//! Load only makes messages slower. So an installation that was fast is fast, whatever else ran;
//! one that was slow is slow only if it was so while its ranks had the processors, or if the
//! library itself has said which way its messages went.

use super::classes::{Against, Class, Comparison, Outcome, Reason, Verdict};
use super::floor::Floor;
use super::peers::{ENOUGH, HEALTHY, LATENCIES, Latencies, Latency, Peers, SUBOPTIMAL};
use super::places::{only_processor, shared_processors};
use super::reference::Reference;
use super::transport::way;
use crate::benchmark::{BenchmarkOutput, Kind};

/// How many times as long as expected is how bad.
struct Limits {
    /// From here on there is something better.
    suboptimal: f64,
    /// From here on, at two sizes, something is wrong: messages go another way than they should.
    /// At one size alone it is a limit that others have elsewhere.
    ill: f64,
    /// From here on one size is enough.
    very_ill: f64,
}

/// Compared with other libraries of MPI. Sizes at which the library is known to have chosen what
/// takes longer do not count as ill.
const OF_OTHERS: Limits = Limits { suboptimal: SUBOPTIMAL, ill: 3.0, very_ill: HEALTHY };
/// Compared with what the node does without MPI.
const OF_FLOOR: Limits = Limits { suboptimal: 6.0, ill: 6.0, very_ill: 10.0 };

/// What latencies are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Yardsticks<'a> {
    /// The reference that was named; it decides where it has a size.
    pub reference: Option<&'a Reference>,
    /// The results of earlier audits; they decide where there are too few healthy peers.
    pub kept: Option<&'a Reference>,
    /// What the node does without MPI.
    pub floor: &'a Floor,
    /// How many processors a node has.
    pub processors: usize,
}

/// Sorts installations by what was seen of them.
///
/// Those of the same position in the result as in `outcomes`; their order changes nothing else.
pub fn judge(outcomes: &[Outcome], yardsticks: &Yardsticks<'_>) -> Vec<Verdict> {
    let is_placed = |outcome: &&Outcome| crowd(outcome, yardsticks.processors).is_none();
    let measured: Vec<_> =
        (outcomes.iter().filter(is_placed)).filter_map(Outcome::latencies).collect();
    let peers = Peers::among(&measured);
    outcomes.iter().map(|outcome| verdict(outcome, yardsticks, &peers)).collect()
}

fn verdict(outcome: &Outcome, yardsticks: &Yardsticks<'_>, peers: &Peers<'_>) -> Verdict {
    let certain = |class, reason| Verdict { class, reason, is_incomplete: false };
    let output = outcome.output();
    if let Some(reason) = crowd(outcome, yardsticks.processors) {
        return certain(Class::Misplaced, reason);
    }
    let is_late = matches!(outcome, Outcome::Failed { reason: Reason::TooLate { .. }, .. });
    let only = only_processor(&output.places);
    if let Some((node, processor)) = only.filter(|_| is_late || matches!(outcome, Outcome::Ran(_)))
    {
        let node = node.to_owned();
        return certain(Class::Inconclusive, Reason::OneCore { node, processor });
    }
    if let Outcome::Failed { reason, .. } = outcome {
        let is_hindered = is_late && (output.throttled > 0 || yardsticks.floor.is_disturbed());
        return if is_hindered {
            certain(Class::Inconclusive, hindrance(output, yardsticks.floor))
        } else {
            certain(Class::Nonfunctional, reason.clone())
        };
    }
    let latencies = outcome.latencies().unwrap_or_default();
    let others =
        compared(output, &latencies, |bytes, one| against_others(bytes, one, yardsticks, peers));
    let floor = compared(output, &latencies, |bytes, one| {
        Some((yardsticks.floor.at(bytes, one)?, Against::Floor, None))
    });
    // Only while the ranks took turns, or not at all.
    let is_unknown = latencies.values().any(Vec::is_empty);
    let has_yardstick = peers.healthy.len() >= ENOUGH
        || yardsticks.reference.is_some()
        || yardsticks.kept.is_some();
    let is_incomplete = is_unknown || (others.len() < LATENCIES.len() && has_yardstick);
    let (class, reason) = classed(&others, &floor, is_unknown).unwrap_or_else(|| {
        (Class::Inconclusive, unknown(output, &latencies, yardsticks.floor, peers))
    });
    let is_tcp = class < Class::NonPerformant;
    let (class, reason) = over_tcp(output).filter(|_| is_tcp).unwrap_or((class, reason));
    Verdict { class, reason, is_incomplete }
}

/// The class of an installation that ran; `None` if nothing certain can be said.
fn classed(
    others: &[Comparison],
    floor: &[Comparison],
    is_unknown: bool,
) -> Option<(Class, Reason)> {
    let (class, worst) = worse(others, floor)?;
    if class == Class::Working {
        return (!is_unknown).then_some((class, Reason::Compared(worst)));
    }
    let quiet = |all: &[Comparison]| -> Vec<_> {
        all.iter().filter(|one| !one.is_disturbed).copied().collect()
    };
    let (class, worst) = worse(&quiet(others), &quiet(floor))?;
    (class != Class::Working).then_some((class, Reason::Slow(worst)))
}

/// The worse of both classes; that by others, if they are equal.
fn worse(others: &[Comparison], floor: &[Comparison]) -> Option<(Class, Comparison)> {
    let all = [by_comparison(floor, &OF_FLOOR), by_comparison(others, &OF_OTHERS)];
    all.into_iter().flatten().max_by_key(|(class, _)| *class)
}

/// For each size, the latency that is nearest to what it should be.
fn compared(
    output: &BenchmarkOutput,
    latencies: &Latencies,
    expected: impl Fn(u64, &Latency) -> Option<(f64, Against, Option<usize>)>,
) -> Vec<Comparison> {
    let of_size = |(bytes, all): (&u64, &Vec<Latency>)| {
        let bytes = *bytes;
        let each = all.iter().filter_map(|one| {
            let (expected, against, peers) = expected(bytes, one)?;
            let (measured, is_disturbed) = (one.microseconds, false);
            Some(Comparison { bytes, measured, expected, against, peers, way: None, is_disturbed })
        });
        let best = each.min_by(|a, b| a.factor().total_cmp(&b.factor()))?;
        let is_disturbed = all.iter().all(|one| one.is_disturbed);
        Some(Comparison { way: way(output, bytes), is_disturbed, ..best })
    };
    latencies.iter().filter_map(of_size).collect()
}

/// What a latency should be at that distance, by a reference or by other installations.
fn against_others(
    bytes: u64,
    one: &Latency,
    yardsticks: &Yardsticks<'_>,
    peers: &Peers<'_>,
) -> Option<(f64, Against, Option<usize>)> {
    let by_reference = |reference: Option<&Reference>, against| {
        let kept = reference?.latency.get(&bytes)?;
        Some((kept.microseconds * one.times_as_far_as(kept), against, None))
    };
    let by_peers = || {
        let (median, count) = peers.at(bytes, one).filter(|(_, count)| *count >= ENOUGH)?;
        Some((median, Against::Peers, Some(count)))
    };
    by_reference(yardsticks.reference, Against::Reference)
        .or_else(by_peers)
        .or_else(|| by_reference(yardsticks.kept, Against::Kept))
}

fn by_comparison(all: &[Comparison], limits: &Limits) -> Option<(Class, Comparison)> {
    // The smallest message is waited for once.
    let wait = all.first().map_or(0.0, Comparison::longer);
    let is_choice =
        |one: &Comparison| one.way.is_some_and(|way| way.is_a_choice(one.longer(), wait));
    let slow: Vec<_> =
        (all.iter().copied()).filter(|one| one.factor() > limits.ill && !is_choice(one)).collect();
    let is_ill = slow.len() >= 2 || slow.iter().any(|one| one.factor() > limits.very_ill);
    let worst_of_all = worst(all)?;
    Some(match worst(&slow).filter(|_| is_ill) {
        Some(worst) => (Class::NonPerformant, worst),
        None if worst_of_all.factor() > limits.suboptimal => (Class::Suboptimal, worst_of_all),
        None => (Class::Working, worst_of_all),
    })
}

fn worst(all: &[Comparison]) -> Option<Comparison> {
    (all.iter().copied()).max_by(|a, b| a.factor().total_cmp(&b.factor()))
}

/// Messages between ranks of one node that go through its network: no load makes them do so.
fn over_tcp(output: &BenchmarkOutput) -> Option<(Class, Reason)> {
    let mut nodes = output.places.iter().map(|place| &place.node);
    let first = nodes.next()?;
    let bytes = *LATENCIES.first()?;
    let best = output.best(Kind::Latency, bytes)?;
    let is_network = way(output, bytes).is_some_and(|way| way.is_network());
    let reason = Reason::OverTcp { bytes, measured: best.p10 };
    (is_network && nodes.all(|node| node == first)).then_some((Class::NonPerformant, reason))
}

/// Why nothing certain can be said.
fn unknown(
    output: &BenchmarkOutput,
    latencies: &Latencies,
    floor: &Floor,
    peers: &Peers<'_>,
) -> Reason {
    let is_disturbed = |all: &Vec<Latency>| all.iter().all(|one| one.is_disturbed);
    let is_measured = !output.figures.is_empty();
    if is_measured && latencies.values().any(is_disturbed) {
        return hindrance(output, floor);
    }
    Reason::NothingToCompare { peers: peers.healthy.len() }
}

/// What kept the ranks from their processors.
fn hindrance(output: &BenchmarkOutput, floor: &Floor) -> Reason {
    if output.throttled > 0 {
        return Reason::Throttled { milliseconds: output.throttled };
    }
    let latencies = output.figures.iter().filter(|figure| figure.kind == Kind::Latency);
    let waited = latencies.filter_map(|figure| figure.waited).reduce(f64::max);
    Reason::Load { waited: waited.or(floor.waited()) }
}

/// Ranks in each other's way, also where they were too slow to come to their end.
fn crowd(outcome: &Outcome, available: usize) -> Option<Reason> {
    let (node, processors) = shared_processors(&outcome.output().places, available)?;
    let is_late = matches!(outcome, Outcome::Failed { reason: Reason::TooLate { .. }, .. });
    (is_late || matches!(outcome, Outcome::Ran(_)))
        .then(|| Reason::SharedProcessors { node: node.to_owned(), processors: processors.clone() })
}
