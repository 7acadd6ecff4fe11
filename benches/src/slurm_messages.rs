// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What messages cost between ranks of a step whose MPI is in an image of another owner than the
//! policy trusts.

use crate::bed::Bed;
use crate::images::make_squashfs;
use crate::measure::{NotMeasured, Rounds};
use crate::mpi::{COLUMNS, MORE, PROGRAM, Pair, SIZES, figures, times_in};
use crate::options::Options;
use crate::ranks::library_with_program;
use crate::report::{Section, Table};
use crate::slurm_cluster::Cluster;

/// What a message may cost over the same between ranks outside of images.
const NATIVE: f64 = 1.05;

const LIBRARY: &str = "/shared/mpich";
const IMAGE: &str = "/shared/mpich.squashfs";

const METHOD: &str = "\
Two ranks of MPICH in a step exchange messages, on one node or on two. A figure is the one-way time \
in microseconds, of the fastest tenth of the round trips of one step. *Native* is the program from a \
directory that all nodes see. The image belongs to an owner whom the policy does not trust: it is \
served through FUSE, outside of a user namespace.";

pub(crate) fn section() -> Section {
    Section::new("Slurm: messages between ranks of an own image", METHOD)
}

pub(crate) fn measure(section: &mut Section, bed: &Bed, cluster: &Cluster, options: &Options) {
    let rounds = options.run_rounds();
    match furnish(bed, cluster).map(|()| table(cluster, rounds)) {
        Ok(table) => section.tables.push(table.captioned("MPICH".to_owned())),
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
}

/// Puts the library with the program, and its image, where all nodes find them.
fn furnish(bed: &Bed, cluster: &Cluster) -> Result<(), NotMeasured> {
    let library = library_with_program(bed, "mpich", PROGRAM, "slurm-mpich-tree")?;
    let image = cluster.directory().join("mpich.squashfs");
    make_squashfs(bed, &library, &image)?;
    let copy = cluster.directory().join("mpich");
    crate::measure::finish(std::process::Command::new("cp").arg("-r").arg(&library).arg(&copy))?;
    let script = format!(
        "cp -r {} {LIBRARY}; install -o bob -m 644 {} {IMAGE}",
        copy.display(),
        image.display()
    );
    cluster.root(&script).map(drop)
}

fn table(cluster: &Cluster, rounds: Rounds) -> Table {
    let mut table = Table::new(&COLUMNS);
    for (nodes, where_they_are) in [(1, "one node"), (2, "two nodes")] {
        let step = |options: &str, place: &str| {
            format!("srun -N{nodes} -n2 --mpi=pmi2 {options} {place}/bin/program {MORE}")
        };
        let native = step("", LIBRARY);
        let image = step(&format!("--uenv={IMAGE}:/user-environment"), "/user-environment");
        for (name, command, target) in
            [("control: native", &native, None), ("image", &image, Some(NATIVE))]
        {
            let pairs: Result<Vec<Pair>, NotMeasured> = (0..rounds.warm_up + rounds.pairs)
                .map(|_| {
                    Ok((times_in(&cluster.alice(command)?)?, times_in(&cluster.alice(&native)?)?))
                })
                .skip(rounds.warm_up)
                .collect();
            for (position, size) in SIZES.iter().enumerate() {
                let mut row = vec![format!("{name}, {where_they_are}"), (*size).to_owned()];
                match &pairs {
                    Ok(pairs) => row.extend(figures(pairs, position, target)),
                    Err(reason) => row.push(crate::comparison::not_measured(reason)),
                }
                table.push(row);
            }
        }
    }
    table
}
