// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What messages between two ranks cost in a stack image, in a root image, and with another
//! MPI than that of the container.

use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::Tree;

use crate::bed::Bed;
use crate::comparison::{cells_of_ratio, not_measured};
use crate::goal::Goal;
use crate::images::{image_at, make_squashfs};
use crate::measure::{NotMeasured, Pairs, finish};
use crate::mpi::COLUMNS;
use crate::options::Options;
use crate::ranks::{library_with_program, program_in, two_ranks};
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::users::as_ordinary_user;

/// What a message may cost over the same outside, with the library that is loaded: the noise
/// of the control.
const NATIVE: f64 = 1.1;
const SIZES: [&str; 5] = ["8", "4096", "32768", "1048576", "4194304"];
/// Two words of memory are handed on in other times than before: the processors are others.
const SAME: f64 = 1.5;
/// How many pairs are kept waiting for at most, for each that is wanted.
const TIME_LIMIT: usize = 2;
/// For how many seconds one run measures.
const SECONDS: &str = "1";

const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/mpi-audit/src/benchmark/program.c");
/// The library that is loaded everywhere but in the container as it came, and that one's.
const LOADED: &str = "mpich";
const OWN: &str = "mpich-3.4.3";
/// Where the container has its MPI.
const INSIDE: &str = "opt/mpi";

const TITLE: &str = "Containers: messages between ranks";
const METHOD: &str = "\
The program of `cabane mpi audit` with two ranks on this machine, as an ordinary user without \
the helper: the ranks of a node share one user namespace. A figure is the one-way time, the \
fastest tenth of the round trips of one run. Both commands of a pair are complete runs of the \
launcher. *Native* is the program outside, with the library that the other command loads. The \
*stack image* has a newer MPICH at its mount point; the *root image* has the same in a root file \
system. The *container* was made with an older MPICH, which `cabane run --mpi` replaces with the \
newer one or keeps. The time that a word of memory takes from one rank to the other is measured \
before and after each size, without the library. Pairs in which these four times differ are \
discarded, because a virtual machine's processors can move. Every message is verified.";

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new(TITLE, METHOD);
    let ranks = match Ranks::make(bed) {
        Ok(ranks) => ranks,
        Err(reason) => return Section::not_measured(TITLE, &reason),
    };
    if let Err(reason) = bed.have_policy(false) {
        return Section::not_measured(TITLE, &reason);
    }
    let pairs = options.transfers(8);
    let (table, goal) = as_ordinary_user(|| ranks.table(pairs));
    section.tables.push(table);
    section.goals.push(goal);
    section.remarks.extend(ranks.libraries());
    section
}

/// The libraries, the images, and where they are.
struct Ranks<'a> {
    bed: &'a Bed,
    loaded: PathBuf,
    own: PathBuf,
    stack: PathBuf,
    mount_point: PathBuf,
    root: PathBuf,
    container: PathBuf,
}

/// Where the ranks run.
#[derive(Clone, Copy)]
enum Place {
    /// Outside, with the library of this name.
    Native(&'static str),
    Stack,
    Root,
    /// In the container with its own library.
    Container,
    Swapped,
}

/// The time of a message, and how far apart the ranks were before and after.
type Figure = (f64, f64, f64);
/// The figures of two runs, one for each size.
type Pair = (Vec<Figure>, Vec<Figure>);

impl<'a> Ranks<'a> {
    fn make(bed: &'a Bed) -> Result<Self, NotMeasured> {
        let outside = |name| library_with_program(bed, name, PROGRAM, &format!("outside-{name}"));
        let ranks = Self {
            bed,
            loaded: outside(LOADED)?,
            own: outside(OWN)?,
            stack: bed.path("stack-mpi.squashfs"),
            mount_point: bed.directory("stack-mpi-mount")?,
            root: bed.path("root-mpi.squashfs"),
            container: bed.path("container-mpi.squashfs"),
        };
        make_squashfs(bed, &ranks.loaded, &ranks.stack)?;
        make_root(bed, &ranks.loaded, &ranks.root)?;
        make_root(bed, &ranks.own, &ranks.container)?;
        Ok(ranks)
    }

    fn table(&self, pairs: usize) -> (Table, Goal) {
        let mut table = Table::new(&[&COLUMNS[..], &["left out"]].concat());
        let mut goal = Goal::ratio("a message in a container, over native, at worst", NATIVE);
        let rows = [
            ("control: native", Place::Native(LOADED), LOADED, false),
            ("stack image", Place::Stack, LOADED, true),
            ("root image", Place::Root, LOADED, true),
            ("container, another MPI", Place::Swapped, LOADED, true),
            ("container, its own MPI", Place::Container, OWN, true),
        ];
        for (name, place, native, has_target) in rows {
            let target = has_target.then_some(NATIVE);
            let mut worst: Option<Summary> = None;
            match self.pairs(place, native, pairs) {
                Ok(pairs) => {
                    for (position, size) in SIZES.iter().enumerate() {
                        let mut row = vec![name.to_owned(), (*size).to_owned()];
                        let (ratio, cells) = figures(&pairs, position, target);
                        row.extend(cells);
                        table.push(row);
                        worst = match (worst, ratio) {
                            (Some(one), Some(ratio)) if one.median >= ratio.median => Some(one),
                            (one, ratio) => ratio.or(one),
                        };
                    }
                }
                Err(reason) => {
                    table.push(vec![name.to_owned(), "all".to_owned(), not_measured(&reason)]);
                }
            }
            if has_target {
                goal.note(name, worst);
            }
        }
        (table, goal)
    }

    /// Runs both in turn, until there are enough pairs of each size or it takes too long.
    fn pairs(
        &self,
        place: Place,
        native: &'static str,
        wanted: usize,
    ) -> Result<Vec<Pair>, NotMeasured> {
        let mut pairs = Vec::new();
        // The first is not counted.
        for turn in 0..=wanted * TIME_LIMIT {
            let pair = (self.sample(place)?, self.sample(Place::Native(native))?);
            if turn > 0 {
                pairs.push(pair);
            }
            let usable = |position: usize| {
                let pairs = pairs.iter();
                pairs.filter(|pair| is_usable(pair, position)).count()
            };
            if (0..SIZES.len()).all(|position| usable(position) >= wanted) {
                break;
            }
        }
        Ok(pairs)
    }

    /// Runs the launcher once, and returns a figure for each size.
    fn sample(&self, place: Place) -> Result<Vec<Figure>, NotMeasured> {
        let output = finish(&mut self.command(place)?)?;
        let output = String::from_utf8_lossy(&output);
        let figures: Vec<Figure> =
            SIZES.iter().filter_map(|size| figure_of(&output, size)).collect();
        if figures.len() == SIZES.len() {
            Ok(figures)
        } else {
            Err("the ranks did not say how long it took".to_owned())
        }
    }

    fn command(&self, place: Place) -> Result<Command, NotMeasured> {
        let of = |name: &str| if name == OWN { &self.own } else { &self.loaded };
        let launcher = match place {
            Place::Native(name) => of(name),
            Place::Container => &self.own,
            _ => &self.loaded,
        };
        let mut command = two_ranks(self.bed, launcher);
        if !matches!(place, Place::Native(_)) {
            command.arg(self.bed.cabane.as_ref().map_err(Clone::clone)?);
            command.arg("run");
        }
        let inside = Path::new("/").join(INSIDE);
        let program = match place {
            Place::Native(name) => program_in(of(name)),
            Place::Stack => {
                let image = image_at(&self.stack, &self.mount_point);
                command.arg(image).arg("--");
                program_in(&self.mount_point)
            }
            Place::Root => {
                command.arg(&self.root).arg("--");
                program_in(&inside)
            }
            Place::Container => {
                command.arg(&self.container).arg("--");
                program_in(&inside)
            }
            Place::Swapped => {
                command.arg("--mpi").arg(&self.loaded);
                command.arg(&self.container).arg("--");
                program_in(&inside)
            }
        };
        command.arg(program).args(["2", SECONDS]);
        Ok(command)
    }

    /// Says which libraries the ranks really loaded.
    fn libraries(&self) -> Vec<String> {
        let places = [
            ("stack image", Place::Stack),
            ("root image", Place::Root),
            ("container, another MPI", Place::Swapped),
            ("container, its own MPI", Place::Container),
        ];
        let output = places.map(|(name, place)| {
            let output = as_ordinary_user(|| finish(&mut self.command(place)?));
            let output = output.map(|output| String::from_utf8_lossy(&output).into_owned());
            let library = output.map(|output| {
                let mut lines = output.lines();
                let library = lines.find_map(|line| line.strip_prefix("library "));
                library.unwrap_or("an unknown library").trim().to_owned()
            });
            format!("{name}: {}.", library.unwrap_or_else(|reason| reason))
        });
        output.into()
    }
}

/// Makes an image with a root file system in which a library and the program are.
fn make_root(bed: &Bed, library: &Path, image: &Path) -> Result<(), NotMeasured> {
    let tree = Tree::new(image.with_extension("tree")).root_file_system("mpi", "");
    let inside = tree.root().join(INSIDE);
    finish(bed.command("mkdir").arg("-p").arg(inside.parent().unwrap_or(&inside)))?;
    finish(bed.command("cp").arg("-r").arg(library).arg(&inside))?;
    let tree = tree.host_libraries_of(INSIDE);
    make_squashfs(bed, tree.root(), image).map(drop)
}

/// Finds a line like `latency 4096 1.234 1.500 370 0.065 0.065`.
fn figure_of(output: &str, size: &str) -> Option<Figure> {
    output.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            ["latency", bytes, fast, _, _, before, after, ..] if *bytes == size => {
                Some((fast.parse().ok()?, before.parse().ok()?, after.parse().ok()?))
            }
            _ => None,
        }
    })
}

/// Whether the ranks were equally far apart in both runs, before and after a size.
fn is_usable((one, other): &Pair, position: usize) -> bool {
    let (Some(one), Some(other)) = (one.get(position), other.get(position)) else {
        return false;
    };
    let distances = [one.1, one.2, other.1, other.2];
    let largest = distances.into_iter().fold(f64::MIN, f64::max);
    let smallest = distances.into_iter().fold(f64::MAX, f64::min);
    largest <= smallest * SAME
}

fn figures(pairs: &[Pair], position: usize, target: Option<f64>) -> (Option<Summary>, Vec<String>) {
    let usable = pairs.iter().filter(|pair| is_usable(pair, position));
    let pick = |figures: &[Figure]| figures.get(position).map_or(f64::NAN, |figure| figure.0);
    let usable = Pairs::of(usable.map(|(one, other)| (pick(one), pick(other))));
    match cells_of_ratio(&usable, target) {
        Ok((ratio, mut cells)) => {
            cells.push((pairs.len() - usable.count()).to_string());
            (Some(ratio), cells)
        }
        Err(_) => (None, vec![not_measured("the processors moved in every pair")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_that_of_its_size_and_kind() {
        let output =
            "library x\nbandwidth 8 9 9 9 0 0\nlatency 80 7 7 7 0 0\nlatency 8 0.4 0.5 9 0.1 0.2\n";
        assert_eq!(figure_of(output, "8"), Some((0.4, 0.1, 0.2)));
    }

    #[test]
    fn a_pair_counts_if_the_processors_stayed() {
        let run = |before, after| vec![(1.0, before, after)];
        assert!(is_usable(&(run(0.2, 0.21), run(0.19, 0.2)), 0));
        assert!(!is_usable(&(run(0.2, 0.21), run(0.065, 0.2)), 0));
    }
}
