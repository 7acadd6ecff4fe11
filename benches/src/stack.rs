// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to build a stack with Spack, beside Stackinator.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bed::Bed;
use crate::comparison::not_measured;
use crate::goal::Goal;
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::processor::{Cost, to_float};
use crate::report::{Section, Table};
use crate::stack_site::{Built, Cache, Place, Site};
use crate::statistics::Summary;

const METHOD: &str = "\
`benches/stack` builds six compressors, the last of which needs four others, with the system's \
gcc, the same Spack, packages, sources, and solver, and no network. Stackinator: `stack-config` \
and the `make` command that it prints; it packs with the squashfs of the stack. Cabane: `cabane \
build` to an image file. Each begins with empty build directories, in turn. *From source* begins \
with empty caches too, *from the cache* is another build directory with the caches of the \
previous build, *at another mount point* is the same for `/user-tools` with packages that were \
built for `/user-environment`, and *one changed* is the same with another variant of zlib, which \
squashfs needs; *without compiling* is that without the time that Spack reports for the packages it \
built. Times are wall time; *computed* is the processor time of all processes.";

const TITLE: &str = "Stacks from Spack";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    match Site::furnish(bed).and_then(|site| measure(&site, options)) {
        Ok(section) => vec![section],
        Err(reason) => vec![Section::not_measured(TITLE, &reason)],
    }
}

/// The figures of the rounds, one number a round each.
#[derive(Default)]
struct Figures {
    configure: Vec<f64>,
    build: Vec<f64>,
    from_cache: Vec<f64>,
    moved: Vec<f64>,
    changed: Vec<f64>,
    beside_compiling: Vec<f64>,
    again: Vec<f64>,
    to_image: Vec<f64>,
    size: Vec<f64>,
}

fn measure(site: &Site<'_>, options: &Options) -> Result<Section, NotMeasured> {
    let mut figures = Figures::default();
    let mut rows = Rows::default();
    let mut remarks = Vec::new();
    // A build takes minutes: what is reported about three holds for two as well.
    for round in 0..options.heavy_rounds().min(2) {
        let ours = site.build("source", round, Place::Disk, Cache::Empty)?;
        rows.add("Cabane: from source", ours.cost, Some(ours.bytes));
        if let Err(reason) = figures.beside_the_peer(site, round, &ours, &mut rows) {
            remarks.push(format!("Stackinator: not measured: {reason}."));
        }
        figures.after_the_first(site, round, &ours, &mut rows)?;
        let memory = site.build("memory", round, Place::Memory, Cache::Empty)?;
        rows.add("Cabane: from source, in memory", memory.cost, Some(memory.bytes));
    }
    let ways = Table::new(&["what", "wall, s", "computed, s", "image, MB"]);
    Ok(Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables: vec![rows.table(ways)],
        goals: figures.goals(),
        remarks,
    })
}

impl Figures {
    /// The same by the peer: configuring, and the whole.
    fn beside_the_peer(
        &mut self,
        site: &Site<'_>,
        round: usize,
        ours: &Built,
        rows: &mut Rows,
    ) -> Result<(), NotMeasured> {
        let show = site.show()?;
        rows.add("Cabane: `recipe show`, all that Spack is handed", show, None);
        let configured = site.stack_config(round)?;
        rows.add("Stackinator: `stack-config`", configured, None);
        self.configure.push(show.wall / configured.wall);
        let theirs = site.make(round)?;
        let made = Some(theirs.bytes);
        rows.add("Stackinator: `make`, from source", theirs.cost, made);
        let whole = configured.wall + theirs.cost.wall;
        self.build.push(ours.cost.wall / whole);
        self.size.push(to_float(ours.bytes) / to_float(theirs.bytes));
        Ok(())
    }

    /// What comes after a build from source.
    fn after_the_first(
        &mut self,
        site: &Site<'_>,
        round: usize,
        source: &Built,
        rows: &mut Rows,
    ) -> Result<(), NotMeasured> {
        let again = site.build("source", round, Place::Disk, Cache::Kept)?;
        self.again.push(again.cost.wall);
        rows.add("Cabane: nothing changed", again.cost, None);

        let cached = site.build("cached", round, Place::Disk, Cache::Kept)?;
        if !same_bytes(&cached.image, &source.image)? {
            return Err("the image from the cache is another one".to_owned());
        }
        self.from_cache.push(cached.cost.wall / source.cost.wall);
        self.to_image.push(cached.after_packages);
        rows.add("Cabane: from the cache", cached.cost, Some(cached.bytes));

        let moved = site.build_moved("moved", round)?;
        self.moved.push(moved.cost.wall / cached.cost.wall);
        rows.add("Cabane: from the cache, at another mount point", moved.cost, Some(moved.bytes));

        let changed = site.build_changed("changed", round)?;
        self.changed.push(changed.cost.wall / source.cost.wall);
        self.beside_compiling.push(changed.cost.wall - changed.compiling);
        rows.add("Cabane: one changed", changed.cost, Some(changed.bytes));
        Ok(())
    }

    fn goals(&self) -> Vec<Goal> {
        let over = |what: &str, target, numbers: &[f64]| {
            Goal::ratio(what, target).reached_by("", Summary::of(numbers))
        };
        let seconds = |what: &str, target, numbers: &[f64]| {
            Goal::at_most(what, target, "s").reached_by("", Summary::of(numbers))
        };
        vec![
            over("configuring a stack, over `stack-config`", 0.1, &self.configure),
            over("a whole stack, over Stackinator", 0.75, &self.build),
            over("a stack from a full cache, over from source", 0.1, &self.from_cache),
            over("from a full cache at another mount point, over the same", 1.3, &self.moved),
            over("with one package in the middle changed", 0.15, &self.changed),
            seconds(
                "with one package in the middle changed, without compiling",
                10.0,
                &self.beside_compiling,
            ),
            seconds("a stack with nothing changed", 0.1, &self.again),
            seconds("from the last package to the image", 3.0, &self.to_image),
            over("size of the image, over Stackinator's", 0.65, &self.size),
        ]
    }
}

/// What each way cost, in the order in which it was first seen.
#[derive(Default)]
struct Rows(Vec<Row>);

struct Row {
    name: &'static str,
    costs: Vec<Cost>,
    bytes: Option<u64>,
}

impl Rows {
    fn add(&mut self, name: &'static str, cost: Cost, bytes: Option<u64>) {
        match self.0.iter_mut().find(|row| row.name == name) {
            Some(row) => row.costs.push(cost),
            None => self.0.push(Row { name, costs: vec![cost], bytes }),
        }
    }

    fn table(&self, mut table: Table) -> Table {
        for row in &self.0 {
            let median = |number: &dyn Fn(&Cost) -> f64| {
                let numbers: Vec<f64> = row.costs.iter().map(number).collect();
                let summary = Summary::of(&numbers);
                summary.map_or_else(
                    || not_measured("no runs"),
                    |summary| format!("{:.2}", summary.median),
                )
            };
            table.push(vec![
                row.name.to_owned(),
                median(&|cost| cost.wall),
                median(&|cost| cost.user + cost.system),
                row.bytes.map_or(String::new(), |bytes| format!("{:.1}", to_float(bytes) / 1e6)),
            ]);
        }
        table
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool, NotMeasured> {
    let read =
        |path: &Path| fs::read(path).map_err(|error| format!("cannot read an image: {error}"));
    Ok(read(one)? == read(other)?)
}

/// Copies a directory with its times: bytecode and indexes are good for sources of one date.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<(), NotMeasured> {
    let mut command = Command::new("cp");
    command.args(["--archive", "--no-target-directory"]).args([from, to]);
    let outcome = command.output();
    let failed = |reason: String| format!("cannot copy {}: {reason}", from.display());
    match outcome {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(failed(String::from_utf8_lossy(&done.stderr).into_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}
