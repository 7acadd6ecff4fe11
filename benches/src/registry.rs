// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to move an image between a registry and a repository.

use std::path::Path;

use crate::bed::Bed;
use crate::comparison::{Comparisons, not_measured, verdict};
use crate::delta;
use crate::depot::Depot;
use crate::finding;
use crate::goal::Goal;
use crate::measure::{Candidate, NotMeasured, Rounds};
use crate::options::Options;
use crate::processor::to_float;
use crate::report::{Section, Table};
use crate::statistics::Summary;

/// What a transfer may take over a raw copy.
const TARGET: f64 = 1.15;
/// What the command may have in memory, in MiB.
const MEMORY: f64 = 64.0;

const TITLE: &str = "Registries: pull and push";
const METHOD: &str = "\
Transfers between Debian's docker-registry and a repository, over loopback, without encryption, \
with an image of incompressible bytes. *Raw* is `curl` with the same blob: a GET into a file, or \
a POST and one PUT from the file. Downloads are on disk at the end: `cabane image pull` syncs \
them itself and also verifies the digest; a `sync` of the file follows the other commands. \
Pushed images are in a repository, so their digest is already known, and the registry waits for \
the disk. The result of each sample is removed before the next one. *In memory* means that all \
files are in a tmpfs: it shows what the programs cost without waiting for a disk, beside other \
tools. Memory is the largest high-water mark of the processes of one more run, which is not \
timed.";

/// Where nothing of a disk is in the way.
const IN_MEMORY: &str = "/dev/shm";
const GIGABYTE: u64 = 1_000_000_000;

type Make = fn(&Depot<'_>) -> Candidate;

/// The ways to move an image in one direction: ours, raw, and those of others.
struct Direction {
    name: &'static str,
    goal: &'static str,
    ours: Make,
    raw: Make,
    peers: [Make; 2],
}

const PULL: Direction = Direction {
    name: "Pull",
    goal: "`image pull`, over a raw copy",
    ours: |depot| depot.pull(),
    raw: |depot| depot.pull_raw(),
    peers: [|depot| depot.pull_with_oras(), |depot| depot.pull_with_skopeo()],
};
const PUSH: Direction = Direction {
    name: "Push",
    goal: "`image push`, over a raw copy",
    ours: |depot| depot.push(),
    raw: |depot| depot.push_raw(),
    peers: [|depot| depot.push_with_oras(), |depot| depot.push_with_skopeo()],
};

/// An image of a size, how often it is moved, and where.
#[derive(Clone, Copy)]
struct Load<'a> {
    name: &'static str,
    bytes: u64,
    pairs: usize,
    parent: &'a Path,
    /// Whether others move it, too.
    has_peers: bool,
    /// Free bytes without which it is left out.
    space: u64,
}

impl Load<'_> {
    fn is_in_memory(&self) -> bool {
        self.parent == Path::new(IN_MEMORY)
    }

    fn has_space(&self) -> Result<(), NotMeasured> {
        let found = rustix::fs::statvfs(self.parent).map_err(|error| error.to_string())?;
        if found.f_bavail.saturating_mul(found.f_frsize) >= self.space {
            return Ok(());
        }
        let space = self.space / GIGABYTE;
        Err(format!("less than {space} GB are free"))
    }
}

fn loads<'a>(disk: &'a Path, options: &Options) -> Vec<Load<'a>> {
    let small = Load {
        name: "1 GB",
        bytes: GIGABYTE,
        pairs: options.transfers(5),
        parent: disk,
        has_peers: false,
        space: 5 * GIGABYTE,
    };
    let in_memory =
        Load { name: "1 GB, in memory", parent: Path::new(IN_MEMORY), has_peers: true, ..small };
    let large = Load {
        name: "8 GB",
        bytes: 8 * GIGABYTE,
        pairs: options.transfers(2),
        space: 25 * GIGABYTE,
        ..small
    };
    let mut loads = vec![in_memory, small];
    if !options.quick {
        loads.push(large);
    }
    loads
}

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    vec![transfers(bed, options), delta::section(bed, options), finding::section(bed, options)]
}

fn transfers(bed: &Bed, options: &Options) -> Section {
    let mut figures = Figures::new();
    let mut remarks = Vec::new();
    let disk = bed.path("");
    for load in loads(&disk, options) {
        if let Err(reason) = figures.measure(bed, load) {
            remarks.push(format!("{}: not measured: {reason}.", load.name));
        }
    }
    if options.quick {
        remarks.push("A quick run leaves 8 GB out.".to_owned());
    }
    let Figures { mut tables, memory, ratios: [pull, push], peaks: [pull_peak, push_peak] } =
        figures;
    tables.push(memory);
    let memory = Goal::at_most("memory of a transfer", MEMORY, "MiB")
        .reached_by("`image pull`", pull_peak)
        .reached_by("`image push`", push_peak);
    Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables,
        goals: vec![pull, push, memory],
        remarks,
    }
}

/// What was found out so far, of pull and of push.
struct Figures {
    tables: Vec<Table>,
    memory: Table,
    ratios: [Goal; 2],
    peaks: [Option<Summary>; 2],
}

impl Figures {
    fn new() -> Self {
        let memory = Table::new(&["command", "image", "MiB", "target", "reached"]);
        Self {
            tables: Vec::new(),
            memory: memory.captioned("Memory at most".to_owned()),
            ratios: [PULL, PUSH].map(|direction| Goal::ratio(direction.goal, TARGET)),
            peaks: [None; 2],
        }
    }

    fn measure(&mut self, bed: &Bed, load: Load<'_>) -> Result<(), NotMeasured> {
        load.has_space()?;
        let depot = Depot::make(bed, load.parent, load.bytes)?;
        let ratio = self.compare(load, &depot, &PULL);
        let peak = self.weigh(load, &depot, &PULL);
        self.note(0, load, ratio, peak);
        depot.turn_round()?;
        let ratio = self.compare(load, &depot, &PUSH);
        let peak = self.weigh(load, &depot, &PUSH);
        self.note(1, load, ratio, peak);
        Ok(())
    }

    fn note(&mut self, way: usize, load: Load<'_>, ratio: Option<Summary>, peak: Option<Summary>) {
        if !load.is_in_memory() {
            self.ratios[way].note(load.name, ratio);
        }
        let before = self.peaks[way];
        let is_higher = |peak: &Summary| before.is_none_or(|before| before.median < peak.median);
        self.peaks[way] = peak.filter(is_higher).or(before);
    }

    /// Runs each way and a raw copy in turn.
    fn compare(
        &mut self,
        load: Load<'_>,
        depot: &Depot<'_>,
        direction: &Direction,
    ) -> Option<Summary> {
        // The probe of each command has warmed up.
        let mut table = Comparisons::ratios(Rounds { warm_up: 0, pairs: load.pairs });
        let raw = || (direction.raw)(depot);
        let target = (!load.is_in_memory()).then_some(TARGET);
        let ratio = table.compare((direction.ours)(depot), raw(), target);
        for peer in direction.peers.iter().filter(|_| load.has_peers) {
            table.compare(peer(depot), raw(), None);
        }
        let caption = format!("{}, {}", direction.name, load.name);
        self.tables.push(table.table().captioned(caption));
        ratio
    }

    /// Runs each way once more and looks how much memory it takes; returns what ours does.
    fn weigh(
        &mut self,
        load: Load<'_>,
        depot: &Depot<'_>,
        direction: &Direction,
    ) -> Option<Summary> {
        let ours = self.weigh_one(load, (direction.ours)(depot), Some(MEMORY));
        // It is the same wherever the files are; and that theirs does not grow need not be
        // shown.
        if load.is_in_memory() {
            for make in [direction.raw].into_iter().chain(direction.peers) {
                self.weigh_one(load, make(depot), None);
            }
        }
        ours
    }

    fn weigh_one(
        &mut self,
        load: Load<'_>,
        mut candidate: Candidate,
        target: Option<f64>,
    ) -> Option<Summary> {
        let mut row = vec![candidate.name.clone(), load.name.to_owned()];
        let peak = match candidate.peak() {
            Ok(peak) => Summary::of(&[to_float(peak) / 1024.0]),
            Err(reason) => {
                row.push(not_measured(&reason));
                None
            }
        };
        if let Some(peak) = peak {
            row.push(format!("**{:.1}**", peak.median));
            row.push(target.map_or(String::new(), |target| format!("≤ {target}")));
            row.push(target.map_or("", |target| verdict(peak, target)).to_owned());
        }
        self.memory.push(row);
        peak
    }
}
