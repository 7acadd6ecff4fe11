// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The classes, and what puts an installation into one.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::peers::{ENOUGH, HEALTHY, LATENCIES, Latencies, Latency, Peers, SUBOPTIMAL, latencies};
use super::places::shared_processors;
use super::reference::Reference;
use super::transport::{Way, way};
use crate::benchmark::BenchmarkOutput;

/// From here on, at two sizes, something is wrong: messages go another way than they should.
/// At one size alone it is a limit that others have elsewhere; beyond [`HEALTHY`] it is not.
/// Sizes at which the library is known to have chosen what takes longer do not count.
const NON_PERFORMANT: f64 = 3.0;

/// What an installation is good for, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It does what it should.
    Working,
    /// It works, and others are faster.
    Suboptimal,
    /// It works so slowly that something must be wrong with it.
    NonPerformant,
    /// Its ranks were put on one processor.
    Misplaced,
    /// It does not compile, start or compute.
    Nonfunctional,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Working => "working",
            Self::Suboptimal => "suboptimal",
            Self::NonPerformant => "non-performant",
            Self::Misplaced => "misplaced",
            Self::Nonfunctional => "nonfunctional",
        })
    }
}

/// What was seen of an installation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It did not come to its end, and this is why.
    Failed {
        /// Why.
        reason: Reason,
        /// What was heard of it before.
        output: Box<BenchmarkOutput>,
    },
    /// It came to its end.
    Ran(Box<BenchmarkOutput>),
}

impl Outcome {
    /// The output of the program.
    pub fn output(&self) -> &BenchmarkOutput {
        match self {
            Self::Failed { output, .. } | Self::Ran(output) => output,
        }
    }

    /// The latencies that are compared; `None` unless it came to its end.
    pub fn latencies(&self) -> Option<Latencies> {
        match self {
            Self::Ran(output) => Some(latencies(output)),
            Self::Failed { .. } => None,
        }
    }
}

/// Why an installation is in its class.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// The program could not be compiled.
    #[error("does not compile: {message}")]
    NotCompiled {
        /// The first line that says why.
        message: String,
    },
    /// It has no compiler, and no other installation can compile for it.
    #[error("no compiler wrapper, and no other installation has a program for its library")]
    NoCompiler,
    /// There is nothing that starts ranks.
    #[error("no mpiexec or mpirun")]
    NoLauncher,
    /// The launcher or the program ended with an error.
    #[error("{}: {message}", ending(*code))]
    NotStarted {
        /// The exit code, or minus the number of the signal.
        code: i32,
        /// The first line that says why.
        message: String,
    },
    /// Each rank is alone: the launcher belongs to another library.
    #[error("{groups} times {found} of {wanted} ranks: the launcher belongs to another library")]
    OtherSize {
        /// How many ranks found each other.
        found: u32,
        /// How many were started.
        wanted: u32,
        /// How many such groups there are.
        groups: u32,
    },
    /// Another library was loaded than the one that is to be tried.
    #[error("another library was loaded: {loaded}")]
    OtherLibrary {
        /// The file.
        loaded: String,
    },
    /// Something else arrived than was sent.
    #[error("wrong data arrived: {what}")]
    WrongData {
        /// What, and the size.
        what: String,
    },
    /// It did not end in time, twice.
    #[error("no end within {seconds} s, {stage}")]
    TooLate {
        /// The limit, in seconds.
        seconds: u64,
        /// What it did last.
        stage: String,
    },
    /// All ranks of a node were put on too few processors.
    #[error("more ranks than processors: all on {} of {node}", list(processors))]
    SharedProcessors {
        /// The node.
        node: String,
        /// The processors.
        processors: BTreeSet<u32>,
    },
    /// A latency, compared.
    #[error("{}{}", .0, .0.way.map(|way| way.to_string()).unwrap_or_default())]
    Slow(Comparison),
    /// Nothing is wrong.
    #[error("at worst, {0}")]
    Compared(Comparison),
    /// It works, and there is nothing to compare it with.
    #[error("nothing to compare with: {peers} healthy")]
    NothingToCompare {
        /// How many healthy installations there are, with this one.
        peers: usize,
    },
}

fn ending(code: i32) -> String {
    if code < 0 { format!("signal {}", -code) } else { format!("exit code {code}") }
}

fn list(processors: &BTreeSet<u32>) -> String {
    let all: Vec<_> = processors.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// A latency beside what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The size of the message.
    pub bytes: u64,
    /// What was measured, in microseconds.
    pub measured: f64,
    /// What others reach, in microseconds.
    pub expected: f64,
    /// How many others; `None` for a kept reference.
    pub peers: Option<usize>,
    /// Which way messages of this size went, where it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
}

impl Comparison {
    /// How many times as long as expected.
    pub fn factor(&self) -> f64 {
        self.measured / self.expected
    }

    /// How many microseconds longer than expected.
    fn longer(&self) -> f64 {
        self.measured - self.expected
    }
}

/// A class with its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The class.
    pub class: Class,
    /// The reason.
    pub reason: Reason,
    /// Whether there were sizes at which others were measured and none at this distance:
    /// another run may tell more.
    #[serde(skip)]
    pub is_incomplete: bool,
}

/// Sorts installations by what was seen of them.
///
/// Those of the same position in the result as in `outcomes`; their order changes nothing
/// else. `available` is the number of processors of a node. A reference decides where there
/// is one for a size, and the healthy installations among these elsewhere.
pub fn judge(
    outcomes: &[Outcome],
    reference: Option<&Reference>,
    available: usize,
) -> Vec<Verdict> {
    let is_placed = |outcome: &&Outcome| crowd(outcome, available).is_none();
    let measured: Vec<_> =
        (outcomes.iter().filter(is_placed)).filter_map(Outcome::latencies).collect();
    let peers = Peers::among(&measured);
    let verdict = |outcome: &Outcome| {
        let certain = |class, reason| Verdict { class, reason, is_incomplete: false };
        if let Some(reason) = crowd(outcome, available) {
            return certain(Class::Misplaced, reason);
        }
        if let Outcome::Failed { reason, .. } = outcome {
            return certain(Class::Nonfunctional, reason.clone());
        }
        let latencies = outcome.latencies().unwrap_or_default();
        let compared = latencies.iter().filter_map(|(bytes, all)| {
            let each = all.iter().filter_map(|one| compare(*bytes, one, reference, &peers));
            let best = each.min_by(|a, b| a.factor().total_cmp(&b.factor()));
            best.map(|best| Comparison { way: way(outcome.output(), *bytes), ..best })
        });
        let verdict =
            by_comparison(&compared.collect::<Vec<_>>(), peers.healthy.len(), reference.is_some());
        // Only while the ranks took turns, or not at all.
        let is_unknown = latencies.values().any(Vec::is_empty);
        Verdict { is_incomplete: verdict.is_incomplete || is_unknown, ..verdict }
    };
    outcomes.iter().map(verdict).collect()
}

/// A latency beside what it should be, at the same distance.
fn compare(
    bytes: u64,
    one: &Latency,
    reference: Option<&Reference>,
    peers: &Peers<'_>,
) -> Option<Comparison> {
    let kept = reference.and_then(|kept| kept.latency.get(&bytes));
    let (expected, count) = if let Some(kept) = kept {
        (kept.microseconds * one.times_as_far_as(kept), None)
    } else {
        let (median, count) = peers.at(bytes, one)?;
        (count >= ENOUGH).then_some((median, Some(count)))?
    };
    Some(Comparison { bytes, measured: one.microseconds, expected, peers: count, way: None })
}

fn by_comparison(all: &[Comparison], peers: usize, has_reference: bool) -> Verdict {
    let is_incomplete = all.len() < LATENCIES.len() && (peers >= ENOUGH || has_reference);
    // The smallest message is waited for once.
    let wait = all.first().map_or(0.0, Comparison::longer);
    let is_choice =
        |one: &Comparison| one.way.is_some_and(|way| way.is_a_choice(one.longer(), wait));
    let slow: Vec<_> = (all.iter().copied())
        .filter(|one| one.factor() > NON_PERFORMANT && !is_choice(one))
        .collect();
    let is_ill = slow.len() >= 2 || slow.iter().any(|one| one.factor() > HEALTHY);
    let (class, reason) = match (worst(&slow), worst(all)) {
        (_, None) => (Class::Working, Reason::NothingToCompare { peers }),
        (Some(worst), _) if is_ill => (Class::NonPerformant, Reason::Slow(worst)),
        (_, Some(worst)) if worst.factor() > SUBOPTIMAL => (Class::Suboptimal, Reason::Slow(worst)),
        (_, Some(worst)) => (Class::Working, Reason::Compared(worst)),
    };
    Verdict { class, reason, is_incomplete }
}

fn worst(all: &[Comparison]) -> Option<Comparison> {
    (all.iter().copied()).max_by(|a, b| a.factor().total_cmp(&b.factor()))
}

/// Ranks in each other's way, also where they were too slow to come to their end.
fn crowd(outcome: &Outcome, available: usize) -> Option<Reason> {
    let (node, processors) = shared_processors(&outcome.output().places, available)?;
    let is_late = matches!(outcome, Outcome::Failed { reason: Reason::TooLate { .. }, .. });
    (is_late || matches!(outcome, Outcome::Ran(_)))
        .then(|| Reason::SharedProcessors { node: node.to_owned(), processors: processors.clone() })
}
