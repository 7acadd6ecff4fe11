// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What steps cost with an image that the kernel reads, and with one that a FUSE program serves:
//! ranks that import numpy, and messages between ranks.

use std::process::Command;

use crate::bed::Bed;
use crate::comparison::not_measured;
use crate::images::make_squashfs;
use crate::measure::{NotMeasured, Rounds, finish};
use crate::mpi::{COLUMNS, MORE, PROGRAM, Pair, SIZES, figures, times_in};
use crate::options::Options;
use crate::ranks::library_with_program;
use crate::report::{Section, Table};
use crate::slurm::{Turns, step};
use crate::slurm_cluster::{CLEAN, Cluster};
use crate::slurm_ranks::{TREE, furnish, of_image, python};

/// What a message may cost over the same between ranks outside of images.
const NATIVE: f64 = 1.05;

const LIBRARY: &str = "/shared/mpich";
const IMAGE: &str = "/shared/mpich.squashfs";

const METHOD: &str = "\
On four virtual nodes of this machine (`tests/slurm/cluster`), as for the page about jobs with Slurm. \
The image belongs to the user. *By the kernel*: the policy trusts all owners. *Through FUSE*: it trusts \
root only, as shipped, and a FUSE program of the user serves the image on each node, outside of a user \
namespace. `srun` of `python3 -c 'import numpy'`, with eight ranks on each node, over the same from a \
directory; *cold* without anything mounted or cached before. Then two ranks of MPICH in a step exchange \
messages, on one node or on two: a figure is the one-way time in microseconds, of the fastest tenth of \
the round trips of one step; *native* is the program from a directory.";
const NODES: usize = 4;

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new("Steps of jobs", METHOD);
    if let Err(reason) = measure(&mut section, bed, options) {
        section.remarks.push(format!("Not measured: {reason}."));
    }
    section
}

fn measure(section: &mut Section, bed: &Bed, options: &Options) -> Result<(), NotMeasured> {
    let cluster = Cluster::start(bed, NODES)?;
    furnish(bed, &cluster)?;
    let rounds = Rounds { warm_up: 1, pairs: options.transfers(7) };
    for (name, is_cold) in [("cold", true), ("warm", false)] {
        let table = numpy(&cluster, rounds, is_cold);
        section.tables.push(table.captioned(format!("32 ranks that import numpy, {name}")));
    }
    furnish_mpi(bed, &cluster)?;
    cluster.root(&trusting("root"))?;
    let table = messages(&cluster, options.run_rounds());
    section.tables.push(table.captioned("Messages of MPICH, through FUSE".to_owned()));
    Ok(())
}

/// Says whose images the kernel may read.
fn trusting(owners: &str) -> String {
    format!("sed -i 's/^image-owners .*/image-owners {owners}/' /etc/cabane/mount.policy")
}

fn numpy(cluster: &Cluster, rounds: Rounds, is_cold: bool) -> Table {
    let size = format!("-N{NODES} -n{}", NODES * 8);
    let directory = step("directory", "true", python(TREE, &size));
    let mut turns = Turns::new(cluster, rounds);
    turns.run(&step("control: directory", "true", python(TREE, &size)), &directory, None);
    for (name, owners) in [("by the kernel", "any"), ("through FUSE", "root")] {
        let mut before = trusting(owners);
        if is_cold {
            before += "; ";
            before += CLEAN;
        }
        turns.run(&step(name, &before, of_image(&size)), &directory, None);
    }
    turns.table.table()
}

/// Puts the library with the program, and its image, where all nodes find them.
fn furnish_mpi(bed: &Bed, cluster: &Cluster) -> Result<(), NotMeasured> {
    let library = library_with_program(bed, "mpich", PROGRAM, "slurm-mpich-tree")?;
    let image = cluster.directory().join("mpich.squashfs");
    make_squashfs(bed, &library, &image)?;
    let copy = cluster.directory().join("mpich");
    finish(Command::new("cp").arg("-r").arg(&library).arg(&copy))?;
    let script = format!(
        "cp -r {} {LIBRARY}; install -o alice -m 644 {} {IMAGE}",
        copy.display(),
        image.display()
    );
    cluster.root(&script).map(drop)
}

fn messages(cluster: &Cluster, rounds: Rounds) -> Table {
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
                    Err(reason) => row.push(not_measured(reason)),
                }
                table.push(row);
            }
        }
    }
    table
}
