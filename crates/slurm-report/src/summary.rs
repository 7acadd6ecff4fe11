// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is said of all records together.

use std::cmp::Reverse;

use cabane_label::{Digest, Label};
use cabane_repository::Repository;
use jiff::Timestamp;
use serde::Serialize;

use crate::node_list::node_list;
use crate::tally::{Tally, UseSum};
use crate::times::{Distribution, Times};

/// A node is slow if its median is so many times that of half of the nodes,
const SLOW: f64 = 2.0;
/// after so many starts.
const ENOUGH: u64 = 5;

/// What the records say.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How many records there are.
    pub counts: Counts,
    /// The first of the lines that are no records.
    pub broken: Vec<Broken>,
    /// When the first record was made.
    pub first: Option<Timestamp>,
    /// When the last record was made.
    pub last: Option<Timestamp>,
    /// How long starts take.
    pub starts: StartTimes,
    /// The nodes, the slowest first.
    pub nodes: Vec<NodeTimes>,
    /// What failed, what many nodes had first.
    pub failures: Vec<Failure>,
    /// The images, the most used first.
    pub images: Vec<ImageUse>,
    /// Who uses which image, the most used first.
    pub uses: Vec<Use>,
    /// Each day, the first one first.
    pub days: Vec<Day>,
    /// Images that no record names, if a repository was given.
    pub unused: Option<Vec<UnusedImage>>,
}

/// The steps of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Day {
    /// The day, in UTC.
    pub date: jiff::civil::Date,
    /// How many steps there were.
    pub steps: u64,
    /// How many of them did not get their images.
    pub unmounted: u64,
}

impl Day {
    fn of((date, [steps, unmounted]): (&jiff::civil::Date, &[u64; 2])) -> Self {
        Self { date: *date, steps: *steps, unmounted: *unmounted }
    }
}

/// How many records there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Ends of steps.
    pub ends: u64,
    /// Further nodes that could not mount.
    pub node_failures: u64,
    /// Records of other kinds and versions.
    pub ignored: u64,
    /// Lines that are no records.
    pub broken: u64,
}

/// A line that is no record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// How long starts take on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StartTimes {
    /// Looking the images up where the step was submitted.
    pub lookup: Option<Distribution>,
    /// Opening their files on the node.
    pub open: Option<Distribution>,
    /// Mounting them.
    pub mount: Option<Distribution>,
}

/// How long a node takes to open and mount images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeTimes {
    /// The node.
    pub node: String,
    /// Its times.
    #[serde(flatten)]
    pub times: Distribution,
    /// Whether it takes much longer than most nodes.
    pub is_slow: bool,
}

/// What failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The reason.
    pub reason: String,
    /// How many steps it concerns whose first node failed.
    pub steps: u64,
    /// How many nodes.
    pub node_count: usize,
    /// The nodes, as Slurm writes them.
    pub nodes: String,
    /// Whose steps they were.
    pub users: Vec<String>,
    /// When it happened the last time.
    pub last: Option<Timestamp>,
}

/// How an image is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageUse {
    /// Its digest, or its path if it has none.
    pub image: String,
    /// How it was named last.
    pub label: Option<String>,
    /// How many users it has.
    pub users: usize,
    /// How many steps asked for it.
    pub steps: u64,
    /// How many did not get it.
    pub unmounted: u64,
    /// How many ended with another exit code than 0.
    pub failed: u64,
    /// When it was used last.
    pub last: Option<Timestamp>,
}

/// How a user uses an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The user.
    pub user: String,
    /// The digest of the image, or its path if it has none.
    pub image: String,
    /// How it was named last.
    pub label: Option<String>,
    /// How many steps asked for it.
    pub steps: u64,
    /// How many did not get it.
    pub unmounted: u64,
    /// How many ended with another exit code than 0.
    pub failed: u64,
    /// When it was used last.
    pub last: Option<Timestamp>,
}

/// An image that no record names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnusedImage {
    /// A label of it.
    pub label: Label,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Since when it has the label.
    pub date: Timestamp,
}

impl Summary {
    /// Makes a summary of records. If there are repositories, it says which of their images no
    /// record names.
    ///
    /// # Errors
    ///
    /// That a repository cannot be read.
    pub fn new(
        tally: &Tally,
        repositories: Option<&[&Repository]>,
    ) -> Result<Self, cabane_repository::Error> {
        let unused = repositories.map(|repositories| unused(tally, repositories)).transpose()?;
        let distribution = Times::distribution;
        Ok(Self {
            counts: Counts {
                steps: tally.steps,
                ends: tally.ends,
                node_failures: tally.node_failures,
                ignored: tally.ignored,
                broken: tally.broken,
            },
            broken: tally.broken_lines.clone(),
            first: tally.first,
            last: tally.last,
            starts: StartTimes {
                lookup: distribution(&tally.lookup),
                open: distribution(&tally.open),
                mount: distribution(&tally.mount),
            },
            nodes: nodes(tally),
            failures: failures(tally),
            images: images(tally),
            uses: uses(tally),
            days: tally.days.iter().map(Day::of).collect(),
            unused,
        })
    }

    /// Returns the median of the medians of all nodes, in milliseconds.
    pub fn usual_start(&self) -> Option<f64> {
        // They are sorted.
        self.nodes.get(self.nodes.len() / 2).map(|node| node.times.median_ms)
    }
}

fn nodes(tally: &Tally) -> Vec<NodeTimes> {
    let one = |(node, times): (&u32, &Times)| {
        let node = tally.nodes.name(*node).to_owned();
        Some(NodeTimes { node, times: times.distribution()?, is_slow: false })
    };
    let mut nodes: Vec<NodeTimes> = tally.starts.iter().filter_map(one).collect();
    nodes.sort_by(|one, other| {
        let slower = other.times.median_ms.total_cmp(&one.times.median_ms);
        slower.then_with(|| one.node.cmp(&other.node))
    });
    let usual = nodes.get(nodes.len() / 2).map_or(0.0, |node| node.times.median_ms);
    for node in &mut nodes {
        node.is_slow = node.times.count >= ENOUGH && node.times.median_ms > usual * SLOW;
    }
    nodes
}

fn failures(tally: &Tally) -> Vec<Failure> {
    let names = |numbers: &std::collections::BTreeSet<u32>| {
        let mut names: Vec<String> =
            numbers.iter().map(|number| tally.users.name(*number).to_owned()).collect();
        names.sort_unstable();
        names
    };
    let one = |(reason, sum): (&u32, &crate::tally::FailureSum)| Failure {
        reason: tally.reasons.name(*reason).to_owned(),
        steps: sum.steps,
        node_count: sum.nodes.len(),
        nodes: node_list(sum.nodes.iter().map(|node| tally.nodes.name(*node))),
        users: names(&sum.users),
        last: sum.last,
    };
    let mut failures: Vec<Failure> = tally.failures.iter().map(one).collect();
    failures.sort_by(|one, other| {
        let more = (other.node_count, other.steps).cmp(&(one.node_count, one.steps));
        more.then_with(|| one.reason.cmp(&other.reason))
    });
    failures
}

fn images(tally: &Tally) -> Vec<ImageUse> {
    let one = |(image, sum): (&u32, &crate::tally::ImageSum)| ImageUse {
        image: tally.images.name(*image).to_owned(),
        label: label(tally, *image),
        users: sum.users.len(),
        steps: sum.sums.steps,
        unmounted: sum.sums.unmounted,
        failed: sum.sums.failed,
        last: sum.sums.last,
    };
    let mut images: Vec<ImageUse> = tally.image_sums.iter().map(one).collect();
    images.sort_by(|one, other| {
        (Reverse(one.steps), &one.image).cmp(&(Reverse(other.steps), &other.image))
    });
    images
}

fn uses(tally: &Tally) -> Vec<Use> {
    let one = |(&(user, image), sum): (&(u32, u32), &UseSum)| Use {
        user: tally.users.name(user).to_owned(),
        image: tally.images.name(image).to_owned(),
        label: label(tally, image),
        steps: sum.steps,
        unmounted: sum.unmounted,
        failed: sum.failed,
        last: sum.last,
    };
    let mut uses: Vec<Use> = tally.uses.iter().map(one).collect();
    uses.sort_by(|one, other| {
        let key = |one: &Use| (Reverse(one.steps), one.user.clone(), one.image.clone());
        other.steps.cmp(&one.steps).then_with(|| key(one).cmp(&key(other)))
    });
    uses
}

fn label(tally: &Tally, image: u32) -> Option<String> {
    let label = tally.image_sums.get(&image)?.label?;
    Some(tally.labels.name(label).to_owned())
}

fn unused(
    tally: &Tally,
    repositories: &[&Repository],
) -> Result<Vec<UnusedImage>, cabane_repository::Error> {
    let is_used = |digest: &Digest| tally.images.has(&digest.to_string());
    let mut unused = Vec::new();
    for repository in repositories {
        let records = repository.records()?.into_iter();
        unused.extend(records.filter(|record| !is_used(&record.digest)).map(|record| {
            let (label, digest) = (record.label, record.digest);
            UnusedImage { label, digest, size: record.size, date: record.date }
        }));
    }
    unused.sort_by_key(|image| Reverse(image.size));
    Ok(unused)
}
