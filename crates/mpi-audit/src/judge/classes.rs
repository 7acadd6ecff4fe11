// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The classes, and what puts an installation into one.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::peers::{Latencies, latencies};
use super::sentence::{percent, short, size};
use super::transport::Way;
use crate::benchmark::BenchmarkOutput;

/// What an installation is good for, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It does what it should.
    Working,
    /// It works, and others are faster.
    Suboptimal,
    /// The node did not let it show what it can do.
    Inconclusive,
    /// It works so slowly that something must be wrong with it.
    NonPerformant,
    /// Its ranks were put on one processor.
    Misplaced,
    /// It does not compile, start or compute.
    Nonfunctional,
}

impl Class {
    /// Whether an installation of this class may be compared with.
    pub fn is_healthy(self) -> bool {
        matches!(self, Self::Working | Self::Suboptimal)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Working => "working",
            Self::Suboptimal => "suboptimal",
            Self::Inconclusive => "inconclusive",
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
    /// Messages go through the network of the node, which the library itself has said.
    #[error("{} take {} µs: they go through TCP sockets", size(*bytes), short(*measured))]
    OverTcp {
        /// The size of a message.
        bytes: u64,
        /// What was measured, in microseconds.
        measured: f64,
    },
    /// Others had the processors.
    #[error("the processors were busy{}", waiting(*waited))]
    Load {
        /// In which part of the time a rank had no processor, at worst.
        waited: Option<f64>,
    },
    /// The limit of a control group stopped the ranks.
    #[error("the processor limit of the control group stopped the ranks for {milliseconds} ms")]
    Throttled {
        /// For how long, in all runs.
        milliseconds: u64,
    },
    /// There is one processor for both ranks.
    #[error("the ranks have only one processor: {processor} of {node}")]
    OneCore {
        /// The node.
        node: String,
        /// The processor.
        processor: u32,
    },
    /// It works, and there is nothing to compare it with.
    #[error("nothing to compare with: {peers} healthy, and no reference")]
    NothingToCompare {
        /// How many healthy installations there are, with this one.
        peers: usize,
    },
}

fn ending(code: i32) -> String {
    if code < 0 { format!("signal {}", -code) } else { format!("exit code {code}") }
}

fn waiting(waited: Option<f64>) -> String {
    waited.map_or_else(String::new, |part| {
        format!(": a rank waited {} of the time for one", percent(part))
    })
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
    /// Where that comes from.
    pub against: Against,
    /// How many others, if it is the median of others.
    pub peers: Option<usize>,
    /// Which way messages of this size went, where it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// Whether others had the processors in each run.
    #[serde(skip)]
    pub is_disturbed: bool,
}

/// What a latency is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The median of the healthy installations.
    Peers,
    /// The reference that was named.
    Reference,
    /// The results of earlier audits on nodes of the same type.
    Kept,
    /// What the node does without MPI.
    Floor,
}

impl Comparison {
    /// How many times as long as expected.
    pub fn factor(&self) -> f64 {
        self.measured / self.expected
    }

    /// How many microseconds longer than expected.
    pub(super) fn longer(&self) -> f64 {
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
