// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What messages between two ranks cost that are each started in an image.
//!
//! A sample is the start of a launcher with two ranks; its figures are what the
//! program `tests/mpi/ping_pong.c` prints, not its wall time.

use std::path::PathBuf;

use crate::bed::Bed;
use crate::comparison::{cells_of_ratio, not_measured};
use crate::images::{image_at, make_squashfs};
use crate::measure::{NotMeasured, Pairs, Rounds, finish};
use crate::options::Options;
use crate::ranks::{library_with_program, program_in, two_ranks};
use crate::report::{Section, Table};
use crate::users::as_ordinary_user;

/// What a message may cost over the same between ranks outside of images.
const NATIVE: f64 = 1.1;

/// How many times as many messages are sent as in the tests: each size must take long
/// enough for both ranks to have a processor at the same time now and then.
pub(crate) const MORE: &str = "40";

/// Messages so large that an MPI library goes another way than with small ones, and
/// some that are not.
pub(crate) const SIZES: [&str; 4] = ["8", "4096", "1048576", "4194304"];

pub(crate) const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/mpi/ping_pong.c");

/// What the tables have of messages.
pub(crate) const COLUMNS: [&str; 9] = [
    "ranks",
    "bytes",
    "over native [quartiles]",
    "of minima",
    "target",
    "reached",
    "µs: min / median",
    "native, µs: min / median",
    "pairs",
];

const METHOD: &str = "\
Two ranks on this machine exchange messages. A figure is the one-way time in microseconds, of \
the fastest tenth of the round trips of one run. Both commands of a pair are complete runs of \
the launcher, as an ordinary user: *native* is `mpiexec -n 2 ping_pong` from a directory; \
*joined* is `mpiexec -n 2 cabane run IMAGE -- ping_pong`, where the ranks share one user \
namespace; *separate* adds `--no-join`. Every message is verified.";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let libraries = [("MPICH", "mpich"), ("Open MPI", "openmpi")];
    let mut section = Section::new("Messages between ranks in images", METHOD);
    for (title, name) in libraries {
        match Library::make(bed, name) {
            Ok(library) => {
                let table = as_ordinary_user(|| library.table(bed, options.run_rounds()));
                section.tables.push(table.captioned(title.to_owned()));
            }
            Err(reason) => section.remarks.push(format!("{title}: not measured: {reason}.")),
        }
    }
    vec![section]
}

/// An MPI library with the program, in a directory and in an image.
struct Library {
    directory: PathBuf,
    image: PathBuf,
    mount_point: PathBuf,
}

/// The figures of two runs, one for each size.
pub(crate) type Pair = (Vec<f64>, Vec<f64>);

/// Where the program of the ranks is.
#[derive(Clone, Copy)]
enum Place {
    Directory,
    Joined,
    Separate,
}

impl Library {
    fn make(bed: &Bed, name: &str) -> Result<Self, NotMeasured> {
        let library = Self {
            directory: library_with_program(bed, name, PROGRAM, &format!("{name}-tree"))?,
            image: bed.path(&format!("{name}.squashfs")),
            mount_point: bed.directory(&format!("{name}-mount"))?,
        };
        make_squashfs(bed, &library.directory, &library.image)?;
        Ok(library)
    }

    fn table(&self, bed: &Bed, rounds: Rounds) -> Table {
        let mut table = Table::new(&COLUMNS);
        let rows = [
            ("control: native", Place::Directory, None),
            ("joined", Place::Joined, Some(NATIVE)),
            ("separate", Place::Separate, None),
        ];
        for (name, place, target) in rows {
            match self.pairs(bed, place, rounds) {
                Ok(pairs) => {
                    for (position, size) in SIZES.iter().enumerate() {
                        let mut row = vec![name.to_owned(), (*size).to_owned()];
                        row.extend(figures(&pairs, position, target));
                        table.push(row);
                    }
                }
                Err(reason) => {
                    // Some libraries end here and others wait: that is a result.
                    let result = match place {
                        Place::Separate => format!("**fails**: {reason}"),
                        _ => not_measured(&reason),
                    };
                    table.push(vec![name.to_owned(), "all".to_owned(), result]);
                }
            }
        }
        table
    }

    fn pairs(&self, bed: &Bed, place: Place, rounds: Rounds) -> Result<Vec<Pair>, NotMeasured> {
        let mut pairs = Vec::with_capacity(rounds.pairs);
        for round in 0..rounds.warm_up + rounds.pairs {
            let pair = (self.sample(bed, place)?, self.sample(bed, Place::Directory)?);
            if round >= rounds.warm_up {
                pairs.push(pair);
            }
        }
        Ok(pairs)
    }

    /// Runs the launcher once, and returns one figure for each size.
    fn sample(&self, bed: &Bed, place: Place) -> Result<Vec<f64>, NotMeasured> {
        let mut command = two_ranks(bed, &self.directory);
        match place {
            Place::Directory => command.arg(program_in(&self.directory)),
            Place::Joined | Place::Separate => {
                command.arg(bed.cabane.as_ref().map_err(Clone::clone)?);
                command.arg("run");
                if matches!(place, Place::Separate) {
                    command.arg("--no-join");
                }
                let image = image_at(&self.image, &self.mount_point);
                command.arg(image).arg("--");
                command.arg(program_in(&self.mount_point))
            }
        };
        let output = finish(command.arg(MORE))?;
        times_in(&String::from_utf8_lossy(&output))
    }
}

/// Returns one figure for each size.
pub(crate) fn times_in(output: &str) -> Result<Vec<f64>, NotMeasured> {
    let times: Vec<f64> = SIZES.iter().filter_map(|size| time_of(output, size)).collect();
    if times.len() == SIZES.len() {
        Ok(times)
    } else {
        Err("the ranks did not say how long it took".to_owned())
    }
}

/// Finds a line like `4096 bytes: 1.234 us`.
fn time_of(output: &str, size: &str) -> Option<f64> {
    output
        .lines()
        .find_map(|line| line.strip_prefix(size)?.strip_prefix(" bytes: "))
        .and_then(|rest| rest.strip_suffix(" us")?.parse().ok())
}

pub(crate) fn figures(pairs: &[Pair], position: usize, target: Option<f64>) -> Vec<String> {
    let pick = |times: &[f64]| times.get(position).copied().unwrap_or(f64::NAN);
    let pairs = pairs.iter();
    let pairs = Pairs::of(pairs.map(|(here, native)| (pick(here), pick(native))));
    match cells_of_ratio(&pairs, target) {
        Ok((_, cells)) => cells,
        Err(reason) => vec![not_measured(&reason)],
    }
}

#[cfg(test)]
mod tests {
    use super::time_of;

    #[test]
    fn a_size_is_not_taken_for_a_longer_one() {
        let output = "hello\n48 bytes: 9.000 us\n8 bytes: 0.400 us\n";
        assert_eq!(time_of(output, "8"), Some(0.4));
    }
}
