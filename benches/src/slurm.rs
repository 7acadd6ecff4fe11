// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What steps of jobs cost with the plugin of Slurm, on virtual nodes.

use std::path::Path;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::measure::{NotMeasured, Rounds};
use crate::options::Options;
use crate::peers::first_line;
use crate::report::{Section, Table};
use crate::slurm_cluster::{CLEAN, Cluster, LABEL, OFF, ON, Step};
use crate::statistics::Summary;
use crate::{slurm_copies, slurm_ranks};

/// What a step with an image may cost over one without the plugin.
const TARGET: f64 = 1.15;
/// How many nodes there are, with what is reported about so many.
const SIZES: [(usize, &str); 2] = [(4, "4 nodes"), (8, "8 nodes")];
const TASKS_OF_A_NODE: usize = 8;

const TITLE: &str = "Slurm: launching steps";
const METHOD: &str = "\
A real Slurm on virtual nodes of this machine (`tests/slurm/cluster`): each node has its own \
processes, network, mounts, and memory for files, and all share the processors. An ordinary user \
types the commands at the login node, in a shell that takes the times. *Without the plugin* \
means that `plugstack.conf`, which is written before each command, does not contain it. The \
image is named by its label. The nodes hold it, except in rows with *first*. 64 steps in a row \
are `srun true` in one `salloc`, with all nodes in each step.";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut launches = Section::new(TITLE, METHOD);
    let mut step = Goal::ratio("a step with an image, over one without the plugin", TARGET);
    let mut tasks = Goal::ratio("the same with 8 tasks on each node", TARGET);
    let mut row = Goal::ratio("64 short steps in a row, the same", TARGET);
    let mut ranks = slurm_ranks::section();
    let mut copies = slurm_copies::section();
    for (nodes, name) in SIZES {
        let cluster = match Cluster::start(bed, nodes) {
            Ok(cluster) => cluster,
            Err(reason) => {
                launches.remarks.push(format!("{name}: not measured: {reason}."));
                continue;
            }
        };
        let (table, ratios) = launch(&cluster, nodes, options);
        // The last command was one without it.
        let _ = cluster.root(ON);
        launches.tables.push(table.captioned(name.to_owned()));
        for (goal, ratio) in [&mut step, &mut tasks, &mut row].into_iter().zip(ratios) {
            goal.note(name, ratio);
        }
        copies.measure(&cluster, nodes, options);
        if nodes == SIZES[0].0 {
            ranks.measure(bed, &cluster, nodes, options);
        }
    }
    let versions = [("slurmd", "-V"), ("bindfs", "--version")];
    let versions = versions.map(|(program, word)| first_line(Path::new(program), word));
    let versions: Vec<String> = versions.into_iter().flatten().collect();
    launches.remarks.push(format!("Programs: {}.", versions.join("; ")));
    launches.goals = vec![step, tasks, row];
    vec![launches, ranks.section(), copies.section()]
}

/// Measures a table, and returns the three ratios that are to be reached.
fn launch(cluster: &Cluster, nodes: usize, options: &Options) -> (Table, [Option<Summary>; 3]) {
    let tasks = nodes * TASKS_OF_A_NODE;
    let image = format!("--uenv={LABEL}");
    let srun = |arguments: &str| format!("srun -N{nodes} {arguments} true");
    let in_a_row = |arguments: &str| {
        format!(
            "salloc --quiet -N{nodes} bash -c 'for i in $(seq 64); do srun {arguments} true || exit; done'"
        )
    };
    let without = |command: String| step("without the plugin", OFF, command);
    let many = format!("-n{tasks}");
    let rounds = Rounds { warm_up: 3, pairs: options.transfers(30) };
    let mut compare = Turns::new(cluster, rounds);
    let control = step("control: without the plugin", OFF, srun(""));
    compare.run(&control, &without(srun("")), None);
    let idle = step("plugin, no image", ON, srun(""));
    compare.run(&idle, &without(srun("")), None);
    let first = step("plugin and image", ON, srun(&image));
    let one = compare.run(&first, &without(srun("")), Some(TARGET));
    let cold =
        step("plugin and image, first on the nodes", &format!("{ON}; {CLEAN}"), srun(&image));
    compare.run(&cold, &without(srun("")), None);
    let idle = step(&format!("plugin, no image, {tasks} tasks"), ON, srun(&many));
    compare.run(&idle, &without(srun(&many)), None);
    let full =
        step(&format!("plugin and image, {tasks} tasks"), ON, srun(&format!("{many} {image}")));
    let eight = compare.run(&full, &without(srun(&many)), Some(TARGET));
    compare.rounds = Rounds { warm_up: 1, pairs: options.transfers(5) };
    let row = step("plugin and image, 64 steps", ON, in_a_row(&image));
    let row = compare.run(&row, &without(in_a_row("")), Some(TARGET));
    (compare.table.table(), [one, eight, row])
}

pub(crate) fn step(name: &str, before: &str, command: String) -> Step {
    Step { name: name.to_owned(), before: before.to_owned(), command }
}

/// Runs steps in turn and collects the rows of a table.
pub(crate) struct Turns<'a> {
    cluster: &'a Cluster,
    pub(crate) rounds: Rounds,
    pub(crate) table: Comparisons,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(cluster: &'a Cluster, rounds: Rounds) -> Self {
        Self { cluster, rounds, table: Comparisons::ratios(rounds) }
    }

    pub(crate) fn run(
        &mut self,
        first: &Step,
        second: &Step,
        target: Option<f64>,
    ) -> Option<Summary> {
        let pairs: Result<_, NotMeasured> = self.cluster.alternate(first, second, self.rounds);
        let names = (first.name.clone(), second.name.clone());
        self.table.add(names, pairs, target)
    }
}
