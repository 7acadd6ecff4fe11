// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to make an image from a large tree.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::comparison::not_measured;
use crate::goal::Goal;
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::peers;
use crate::processor::{Cost, cost_of, to_float};
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::tree::{self, Made};

/// What packing may compute over gzip: 11 s over 192 s.
const TARGET: f64 = 0.06;

const METHOD: &str = "\
Two trees: a large synthetic one, the same everywhere, with half of its bytes like source code \
and half like libraries; and the real one of the sections above. Every round runs each way once, \
in turn. Times are medians of all processes together: computing (user) and work of the kernel \
(system). `cabane build` of a recipe of the engine `tree` is the complete command: reading the \
recipe, examining every file, mksquashfs in the sandbox, checking, computing the digest, and \
writing the result.";

/// A way to make an image.
struct Packer {
    name: &'static str,
    /// The command, which writes to this file.
    command: Result<Command, NotMeasured>,
    image: PathBuf,
    /// What must not be there when it starts.
    leftover: PathBuf,
    costs: Vec<Cost>,
    bytes: u64,
}

/// What is packed.
struct Source {
    name: &'static str,
    root: PathBuf,
    /// The mount point for which it is made.
    store: PathBuf,
    made: Made,
}

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut section = Section::new("Packing", METHOD);
    let mut goal = Goal::ratio("processor time of packing over gzip, squashfs", TARGET);
    for source in [made_tree(bed, options), real_tree(bed, options)] {
        match source {
            Ok(source) => {
                let (table, ratio) = measure(bed, &source, options.heavy_rounds());
                section.tables.push(table);
                goal = goal.reached_by(source.name, ratio);
            }
            Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
        }
    }
    section.goals.push(goal);
    section.remarks.push(format!(
        "The target is that of the design, which took 11 s to 192 s of gzip: a ratio of {TARGET}. \
         gzip has an easier time with the made tree than with real ones."
    ));
    vec![section]
}

fn made_tree(bed: &Bed, options: &Options) -> Result<Source, NotMeasured> {
    let (root, files) = (bed.path("large-tree"), options.files());
    let made =
        tree::make(&root, files).map_err(|error| format!("cannot make the large tree: {error}"))?;
    let store = PathBuf::from("/user-environment");
    Ok(Source { name: "The made tree", root, store, made })
}

fn real_tree(bed: &Bed, options: &Options) -> Result<Source, NotMeasured> {
    if options.quick {
        return Err("the real tree is left out of a quick run".to_owned());
    }
    let images = bed.images()?;
    let root = images.tree.clone();
    let made = tree::count(&root).map_err(|error| format!("cannot read the real tree: {error}"))?;
    let store = images.mount_point.clone();
    Ok(Source { name: "The real tree, a Python interpreter", root, store, made })
}

fn measure(bed: &Bed, source: &Source, rounds: usize) -> (Table, Option<Summary>) {
    let Source { name, made, .. } = source;
    let mut packers = packers(bed, source);
    for _ in 0..rounds {
        for packer in &mut packers {
            packer.run();
        }
    }
    let megabytes = to_float(made.bytes) / 1e6;
    let mut table = Table::new(&[
        "command",
        "user s: min / median",
        "over gzip",
        "target",
        "reached",
        "system s",
        "wall s",
        "MB",
        "tree / image",
        "rounds",
    ])
    .captioned(format!("{name}: {} files, {megabytes:.0} MB", made.files));
    let gzip = packers.first().and_then(|packer| packer.summary(|cost| cost.user));
    let user = |packer: &Packer| packer.summary(|cost| cost.user);
    let ours = packers.get(1).and_then(user);
    let ratio = ours.zip(gzip).and_then(|(ours, gzip)| Summary::of(&[ours.median / gzip.median]));
    for packer in packers {
        let target = packer.name.starts_with("`cabane").then_some(TARGET);
        table.push(packer.row(*made, gzip, target));
    }
    (table, ratio)
}

fn packers(bed: &Bed, source: &Source) -> Vec<Packer> {
    let root = &source.root;
    let zstd = ["-comp", "zstd", "-Xcompression-level", "3"];
    vec![
        mksquashfs(bed, root, "`mksquashfs` (gzip, its default)", &[]),
        cabane(bed, source, "`cabane build` (squashfs, zstd 3)", "squashfs"),
        mksquashfs(bed, root, "`mksquashfs`, zstd 3", &zstd),
        cabane(bed, source, "`cabane build` (EROFS, lz4)", "erofs"),
        mkfs_erofs(bed, root),
    ]
}

fn mksquashfs(bed: &Bed, root: &Path, name: &'static str, options: &[&str]) -> Packer {
    let image = bed.path("packed.squashfs");
    let command = peers::MKSQUASHFS.find().map(|program| {
        let mut command = bed.command(program);
        command.arg(root).arg(&image).args(["-noappend", "-no-progress", "-quiet"]).args(options);
        command
    });
    Packer::new(name, command, image.clone(), image)
}

fn mkfs_erofs(bed: &Bed, root: &Path) -> Packer {
    let image = bed.path("packed.erofs");
    let command = peers::MKFS_EROFS.find().map(|program| {
        let mut command = bed.command(program);
        command.args(["--quiet", "-zlz4"]).arg(&image).arg(root);
        command
    });
    Packer::new("`mkfs.erofs`, lz4", command, image.clone(), image)
}

fn cabane(bed: &Bed, source: &Source, name: &'static str, format: &str) -> Packer {
    let image = bed.path(&format!("built.{format}"));
    let build_dir = bed.path(&format!("build-{format}"));
    let command = write_recipe(bed, &source.root, &source.store).and_then(|recipe| {
        let mut command = bed.cabane(&bed.path("no-repository"))?;
        command.arg("build").arg(recipe).arg("--output").arg(&image);
        command.args(["--image-format", format, "--build-dir"]).arg(&build_dir);
        Ok(command)
    });
    Packer::new(name, command, image, build_dir)
}

/// Writes a recipe that makes an image of a tree, and returns its directory.
pub(crate) fn write_recipe(bed: &Bed, root: &Path, store: &Path) -> Result<PathBuf, NotMeasured> {
    let name = root.file_name().map(OsString::from).unwrap_or_default();
    let recipe = bed.path("recipes").join(name);
    let text = format!(
        "name: bench\nversion: 3\nengine: tree\nstore: {}\n\
         description: a tree to be measured\ntree:\n  source: {}\n",
        store.display(),
        root.display()
    );
    fs::create_dir_all(&recipe)
        .and_then(|()| fs::write(recipe.join("config.yaml"), text))
        .map_err(|error| format!("cannot write a recipe: {error}"))?;
    Ok(recipe)
}

impl Packer {
    fn new(
        name: &'static str,
        command: Result<Command, NotMeasured>,
        image: PathBuf,
        leftover: PathBuf,
    ) -> Self {
        Self { name, command, image, leftover, costs: Vec::new(), bytes: 0 }
    }

    /// Packs once; after a failure it is not tried again.
    fn run(&mut self) {
        let Ok(command) = &mut self.command else {
            return;
        };
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir_all(&self.leftover);
        let cost = cost_of(command);
        let size = fs::metadata(&self.image).map(|found| found.len());
        match (cost, size) {
            (Ok(cost), Ok(size)) => {
                self.costs.push(cost);
                self.bytes = size;
            }
            (Err(reason), _) => self.command = Err(reason),
            (_, Err(error)) => self.command = Err(format!("no image: {error}")),
        }
    }

    fn summary(&self, seconds: impl Fn(&Cost) -> f64) -> Option<Summary> {
        Summary::of(&self.costs.iter().map(seconds).collect::<Vec<_>>())
    }

    fn row(&self, made: Made, gzip: Option<Summary>, target: Option<f64>) -> Vec<String> {
        let summaries = (
            self.summary(|cost| cost.user),
            self.summary(|cost| cost.system),
            self.summary(|cost| cost.wall),
        );
        let (user, system, wall) = match (&self.command, summaries) {
            (Ok(_), (Some(user), Some(system), Some(wall))) => (user, system, wall),
            (Err(reason), _) => return vec![self.name.to_owned(), not_measured(reason)],
            _ => return vec![self.name.to_owned(), not_measured("no rounds")],
        };
        let ratio = gzip.map(|gzip| user.median / gzip.median);
        let reached = |target| ratio.map_or("", |ratio| if ratio <= target { "yes" } else { "no" });
        vec![
            self.name.to_owned(),
            format!("{:.2} / **{:.2}**", user.minimum, user.median),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
            target.map_or(String::new(), |target| format!("≤ {target}")),
            target.map_or("", reached).to_owned(),
            format!("{:.2}", system.median),
            format!("{:.2}", wall.median),
            format!("{:.1}", to_float(self.bytes) / 1e6),
            format!("{:.2}", to_float(made.bytes) / to_float(self.bytes)),
            self.costs.len().to_string(),
        ]
    }
}
