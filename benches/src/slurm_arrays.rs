// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to submit a thousand cells of a pipeline to Slurm.

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::measure::{NotMeasured, Rounds};
use crate::options::Options;
use crate::report::Section;
use crate::slurm::step;
use crate::slurm_cluster::{Cluster, OFF};
use crate::statistics::Summary;

const CELLS: usize = 1_000;
/// In milliseconds.
const TARGET: f64 = 1_000.0;
const TITLE: &str = "Pipelines: a thousand cells for Slurm";
const METHOD: &str = "\
A real Slurm on two virtual nodes of this machine, without accounting. `pipeline run --on slurm` \
reads the file and the recipes of 1,000 cells, plans them, and submits their builds and checks as \
two arrays, of which the second depends on the first, task by task. The time ends when both are on \
its list; then it is ended, and all jobs are canceled. Beside it are the two calls of `sbatch` \
alone. The jobs are held, so that nothing runs.";

/// Removes what the last one left.
const CLEAN: &str = "scancel --quiet --user alice; rm -rf /home/alice/run";
const RUN: &str = "\
cabane --system here pipeline run --offline --on slurm --file /home/alice/pipeline.yaml --run /home/alice/run \
>/dev/null 2>&1 & run=$!; \
until [ \"$(grep -c '\"stage\"' run/slurm/jobs.json 2>/dev/null)\" = 2 ]; do kill -0 $run || break; sleep 0.002; done; \
kill -INT $run && wait $run; true";
const SBATCH: &str = "\
build=$(sbatch --parsable --hold --array=1-1000 --output=/dev/null --wrap true); \
sbatch --parsable --hold --array=1-1000 --output=/dev/null --dependency=aftercorr:$build --wrap true";

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new(TITLE, METHOD);
    let rounds = Rounds { warm_up: 1, pairs: options.transfers(10) };
    let mut table = Comparisons::differences(rounds);
    match submit(bed, rounds, &mut table) {
        Ok(time) => {
            let goal = Goal::at_most("`pipeline run` submits 1,000 cells", TARGET, "ms");
            section.goals.push(goal.reached_by("", time));
            section.tables.push(table.table());
        }
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    section
}

fn submit(
    bed: &Bed,
    rounds: Rounds,
    table: &mut Comparisons,
) -> Result<Option<Summary>, NotMeasured> {
    let cluster = Cluster::start(bed, 2)?;
    let before = format!("{OFF}; {CLEAN}");
    cluster.root(OFF)?;
    cluster.alice(&format!(
        r#"cd; mkdir -p recipes/app/1/tree
        printf 'name: app\nengine: tree\ntree: {{source: tree}}\n' >recipes/app/1/config.yaml
        {{
            echo 'resources: {{build: {{options: [--hold]}}, check: {{options: [--hold]}}}}'
            echo 'clusters: {{here: {{targets: [{{uarch: x86_64}}]}}}}'
            echo 'uenvs:'
            echo '  app:'
            for version in $(seq {CELLS}); do
                echo "    \"$version\": {{recipes: {{x86_64: \"1\"}}, deploy: {{here: [x86_64]}}}}"
            done
        }} >pipeline.yaml
        cabane --system here pipeline check --file pipeline.yaml"#
    ))?;
    let run = step("`pipeline run --on slurm`, 1,000 cells", &before, RUN.to_owned());
    let arrays = step("two calls of `sbatch`", &before, SBATCH.to_owned());
    let pairs = cluster.alternate(&run, &arrays, rounds)?;
    let time = pairs.first();
    table.add((run.name, arrays.name), Ok(pairs), None);
    Ok(time)
}
