// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the program says, taken apart.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One way of a message, in microseconds.
    Latency,
    /// Messages in windows of 64, in MB/s.
    Bandwidth,
    /// A sum over all ranks, in microseconds.
    Allreduce,
    /// Messages from all to all, in microseconds.
    Alltoall,
}

/// What was measured for one size of messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was done.
    pub kind: Kind,
    /// The size of a message.
    pub bytes: u64,
    /// What the fastest tenth of the operations was better than.
    pub p10: f64,
    /// What a quarter of them was better than.
    pub p25: Option<f64>,
    /// What half of them was better than.
    pub p50: f64,
    /// What three quarters of them were better than.
    pub p75: Option<f64>,
    /// How many operations were timed.
    pub count: u32,
    /// How long a word of memory took from one rank to the other at that time, in
    /// microseconds; `None` on different nodes.
    pub distance: Option<f64>,
    /// In which part of the time, from 0 to 1, a rank had no processor because others had it;
    /// `None` where the kernel does not say it.
    pub waited: Option<f64>,
}

/// In which part of the time a rank may have had no processor before its figures are doubtful.
const DISTURBED: f64 = 0.05;

impl Figure {
    /// Makes a figure of the times of single operations, in microseconds; `None` without any.
    pub fn of_times(
        kind: Kind,
        bytes: u64,
        mut times: Vec<f64>,
        waited: Option<f64>,
    ) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 100).copied();
        Some(Self {
            kind,
            bytes,
            p10: at(10)?,
            p25: at(25),
            p50: at(50)?,
            p75: at(75),
            count: u32::try_from(times.len()).ok()?,
            distance: None,
            waited,
        })
    }

    /// Whether others had the processors for so long that the figure may be too slow.
    pub fn is_disturbed(&self) -> bool {
        self.waited.is_some_and(|part| part > DISTURBED)
    }

    /// Whether it tells of something faster than the other.
    pub fn is_better_than(&self, other: &Self) -> bool {
        match self.kind {
            Kind::Bandwidth => self.p10 > other.p10,
            Kind::Latency | Kind::Allreduce | Kind::Alltoall => self.p10 < other.p10,
        }
    }
}

/// What the library of the first rank did for messages of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trips {
    /// The size of a message.
    pub bytes: u64,
    /// How many times one went there and one came back.
    pub count: u64,
    /// How often it gave its processor back to the system.
    pub yields: u64,
    /// How often it had the kernel copy from one process to the other.
    pub copies: u64,
    /// How many bytes came over its TCP sockets.
    pub over_tcp: u64,
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its number.
    pub rank: u32,
    /// The name of its node.
    pub node: String,
    /// The processors that it may use; none where the system did not tell.
    pub processors: BTreeSet<u32>,
}

/// A type of node. Figures of nodes of one type can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeType {
    /// The model of its processors: `model name` in `/proc/cpuinfo`, or `CPU part` on Arm.
    pub model: String,
    /// How many processors are online.
    pub processors: u32,
}

impl NodeType {
    /// Takes it from the text of `/proc/cpuinfo`; `None` if that has no model.
    pub fn from_cpuinfo(text: &str) -> Option<Self> {
        let fields = || text.lines().filter_map(|line| line.split_once(':'));
        let is = |name: &'static str| move |(field, _): &(&str, &str)| field.trim_end() == name;
        let (_, model) =
            fields().find(is("model name")).or_else(|| fields().find(is("CPU part")))?;
        let processors = u32::try_from(fields().filter(is("processor")).count()).ok()?;
        Some(Self { model: simplified(model)?, processors })
    }
}

/// Joins words by single spaces; `None` without any.
fn simplified(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// The output of a run of the program until it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkOutput {
    /// What the library calls itself.
    pub library: Option<String>,
    /// The files of the library, as the first rank has loaded them.
    pub loaded: Vec<PathBuf>,
    /// The number of ranks that know of each other, once for each such group.
    pub sizes: Vec<u32>,
    /// The type of the node that the first rank was on.
    #[serde(default)]
    pub node_type: Option<NodeType>,
    /// Where the ranks are.
    pub places: Vec<Place>,
    /// Whether the sum over all ranks was right.
    pub is_summed: bool,
    /// What arrived wrongly.
    pub wrong: Option<String>,
    /// Whether the program's own limit was reached.
    pub is_late: bool,
    /// Whether it came to its end.
    pub is_done: bool,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// How messages went while latencies were measured.
    #[serde(default)]
    pub trips: Vec<Trips>,
    /// For how many milliseconds the limit of a control group stopped processes during the runs.
    #[serde(default)]
    pub throttled: u64,
}

impl BenchmarkOutput {
    /// Takes apart what the program wrote to its standard output.
    ///
    /// Lines of others in between, such as warnings of a library, mean nothing.
    pub fn from_output(text: &str) -> Self {
        let mut output = Self::default();
        for line in text.lines() {
            output.hear(line.trim_end());
        }
        output
    }

    fn hear(&mut self, line: &str) {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "library" => {
                let parts: Vec<_> = rest.split_whitespace().collect();
                self.library.get_or_insert(parts.join(" "));
            }
            "loaded" if rest.starts_with('/') => {
                let path = PathBuf::from(rest);
                if !self.loaded.contains(&path) {
                    self.loaded.push(path);
                }
            }
            "size" => self.sizes.extend(rest.parse::<u32>()),
            "rank" => self.places.extend(place(rest)),
            "node-type" => self.node_type = self.node_type.take().or_else(|| node_type(rest)),
            "sum" => self.is_summed |= rest == "ok",
            "wrong" => {
                self.wrong.get_or_insert(rest.to_owned());
            }
            "late" => self.is_late = true,
            "way" => self.trips.extend(trips(rest)),
            "done" => self.is_done = true,
            _ => {
                let kind = StrDeserializer::<Error>::new(key);
                if let Ok(kind) = Kind::deserialize(kind) {
                    self.figures.extend(figure(kind, rest));
                }
            }
        }
    }

    /// All figures of a kind and size, one of each run.
    pub fn figures(&self, kind: Kind, bytes: u64) -> impl Iterator<Item = &Figure> {
        let figures = self.figures.iter();
        figures.filter(move |figure| (figure.kind, figure.bytes) == (kind, bytes))
    }

    /// The best figure of a kind and size.
    pub fn best(&self, kind: Kind, bytes: u64) -> Option<&Figure> {
        let figures = self.figures(kind, bytes);
        figures.reduce(|a, b| if b.is_better_than(a) { b } else { a })
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        self.figures.extend(other.figures.iter().copied());
        self.trips.extend(other.trips.iter().copied());
        self.throttled += other.throttled;
    }
}

fn figure(kind: Kind, rest: &str) -> Option<Figure> {
    let mut fields = rest.split(' ');
    let mut number = || fields.next()?.parse::<f64>().ok().filter(|value| value.is_finite());
    let (bytes, p10, p50, count) = (number()?, number()?, number()?, number()?);
    // The fastest tenth comes from when they were nearest to each other.
    let distance = number()?.min(number()?);
    let (p25, p75, waited) = (number(), number(), number());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "both are small whole numbers; others become such"
    )]
    let figure = Figure {
        kind,
        bytes: bytes as u64,
        p10,
        p25,
        p50,
        p75,
        count: count as u32,
        distance: Some(distance).filter(|distance| *distance > 0.0),
        waited: waited.filter(|part| *part >= 0.0),
    };
    (p10 > 0.0 && fields.next().is_none()).then_some(figure)
}

fn trips(rest: &str) -> Option<Trips> {
    let mut fields = rest.split(' ');
    let mut number = || fields.next()?.parse().ok();
    let trips = Trips {
        bytes: number()?,
        count: number()?,
        yields: number()?,
        copies: number()?,
        over_tcp: number()?,
    };
    (trips.count > 0 && fields.next().is_none()).then_some(trips)
}

/// Takes apart a type of node: how many processors it has, and their model.
fn node_type(text: &str) -> Option<NodeType> {
    let (processors, model) = text.split_once(' ')?;
    Some(NodeType { model: simplified(model)?, processors: processors.parse().ok()? })
}

fn place(rest: &str) -> Option<Place> {
    let mut fields = rest.split(' ');
    let rank = fields.next()?.parse().ok()?;
    let node = fields.next()?.to_owned();
    fields.next()?;
    let processors = processors(fields.next()?)?;
    Some(Place { rank, node, processors })
}

/// Reads ranges such as `0-3,8-8`; `-` is nothing.
fn processors(text: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for range in text.split(',').filter(|_| text != "-") {
        let (first, last) = range.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last > 100_000 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
[1234] some warning of a library
library MPICH Version:      4.0.3
loaded /opt/mpich/lib/libmpi.so.12
size 2
rank 0 vm 0 0-0
rank 1 vm 1 0-1,4-5
sum ok
latency 8 0.536 0.646 16340 0.065 0.235 0.601 0.713 0.0713
latency 4096 2.173
bandwidth 64 216.171 168.587 980 0.000 0.000
done
";

    #[test]
    fn output_before_the_end_is_kept() {
        let output = BenchmarkOutput::from_output(OUTPUT.split_once("latency").unwrap().0);
        assert_eq!(
            (output.library.as_deref(), output.is_summed, output.is_done),
            (Some("MPICH Version: 4.0.3"), true, false)
        );
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_figure() {
        let output = BenchmarkOutput::from_output(OUTPUT);
        let sizes: Vec<_> = output.figures.iter().map(|f| (f.kind, f.bytes)).collect();
        assert_eq!(sizes, [(Kind::Latency, 8), (Kind::Bandwidth, 64)]);
    }

    #[test]
    fn a_figure_has_its_quartiles_and_how_long_others_had_the_processors() {
        let output = BenchmarkOutput::from_output(OUTPUT);
        let seen = output.figures[0];
        assert_eq!((seen.p25, seen.p75, seen.waited), (Some(0.601), Some(0.713), Some(0.0713)));
        assert!(seen.is_disturbed() && !output.figures[1].is_disturbed());
    }

    #[test]
    fn what_the_kernel_does_not_say_is_unknown() {
        let output = BenchmarkOutput::from_output("latency 8 1 2 9 0.1 0.1 1.5 2.5 -1.0\n");
        assert_eq!((output.figures[0].p75, output.figures[0].waited), (Some(2.5), None));
    }

    #[test]
    fn what_the_library_did_for_messages_is_counted_over_all_runs() {
        let mut output =
            BenchmarkOutput::from_output("way 8 100 310 0 0\nway 8 100\nway 8 0 1 1 1\n");
        output.add(&BenchmarkOutput::from_output("way 8 200 0 200 1600\n"));
        let all: Vec<_> = output.trips.iter().map(|one| (one.count, one.yields)).collect();
        assert_eq!(all, [(100, 310), (200, 0)]);
    }

    #[test]
    fn processors_of_a_rank_are_read_as_ranges() {
        let output = BenchmarkOutput::from_output(OUTPUT);
        let second: Vec<_> = output.places[1].processors.iter().copied().collect();
        assert_eq!(second, [0, 1, 4, 5]);
    }

    #[test]
    fn the_best_figure_of_two_runs_is_the_one_that_is_shown() {
        let mut output =
            BenchmarkOutput::from_output("latency 8 0.5 0.6 9 1 1\nbandwidth 64 200 100 9 0 0\n");
        output.add(&BenchmarkOutput::from_output(
            "latency 8 0.4 0.9 9 1 1\nbandwidth 64 100 90 9 0 0\n",
        ));
        let best = [(Kind::Latency, 8), (Kind::Bandwidth, 64)].map(|(kind, bytes)| {
            let best = output.best(kind, bytes);
            best.map(|figure| figure.p10)
        });
        assert_eq!(best, [Some(0.4), Some(200.0)]);
    }

    #[test]
    fn ranks_are_as_far_apart_as_when_they_were_nearest() {
        let output = BenchmarkOutput::from_output(OUTPUT);
        let distances: Vec<_> = output.figures.iter().map(|figure| figure.distance).collect();
        assert_eq!(distances, [Some(0.065), None]);
    }
}
