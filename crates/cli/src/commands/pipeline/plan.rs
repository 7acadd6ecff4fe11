// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline check` and `plan`: what a pipeline describes, and what is left to do.

use std::collections::BTreeSet;

use cabane_pipeline::{PlannedCell, Stage};
use cabane_report::Result;
use clap::Args;
use serde_json::json;

use crate::commands::pipeline::{PipelineArgs, PlanningArgs, PublishingArgs};
use crate::setup::Setup;
use crate::table::{Table, counted};

/// Check the description of a pipeline
#[derive(Debug, Args)]
#[command(after_help = "\
A pipeline describes recipes, systems, and where the images go. Each recipe on each
system is a cell: name/version@system%uarch. The file config.yaml of a collection of
recipes for uenv is read as it is.

A cell that can never be built causes a warning, and a missing recipe an error.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// List the cells
    #[arg(long)]
    cells: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what is left to do for each cell, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane pipeline plan
  cabane pipeline plan --since main
  cabane pipeline plan --only prgenv-gnu --only @daint

Without a system in --only, the cells of this system are planned, if its name is known.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    planning: PlanningArgs,
    #[command(flatten)]
    publishing: PublishingArgs,
    /// Only cells whose next stage is this one: build, check, publish, or promote. Repeatable
    #[arg(long, value_name = "STAGE")]
    next: Vec<Stage>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<()> {
    let (pipeline, _) = args.pipeline.open()?;
    for remark in &pipeline.remarks {
        setup.warning(remark);
    }
    if args.json {
        let cells: Vec<_> = pipeline
            .cells
            .iter()
            .map(|cell| json!({"cell": cell.name, "recipe": cell.recipe, "inputs": cell.inputs}))
            .collect();
        setup.printer.json(&cells);
    } else if args.cells {
        let mut table = Table::new(&["cell", "inputs", "recipe"]);
        for cell in &pipeline.cells {
            let recipe = cell.recipe.strip_prefix(&pipeline.directory).unwrap_or(&cell.recipe);
            table.push(&[&cell.name, &cell.inputs.id(), &recipe.display()]);
        }
        setup.printer.data(table);
    }
    if let Some(warning) = pipeline.lock_warning() {
        setup.warning(warning);
    } else if let unlocked @ 1.. = pipeline.unlocked().len() {
        let bases = counted(unlocked, "base");
        setup.hint(format!(
            "{bases} can change under the same name: `cabane pipeline lock` pins them"
        ));
    }
    let systems: BTreeSet<_> = pipeline.cells.iter().map(|cell| &cell.name.system).collect();
    let names: BTreeSet<_> = pipeline.cells.iter().map(|cell| &cell.name.name).collect();
    setup.note(format_args!(
        "{} of {} on {}",
        counted(pipeline.cells.len(), "cell"),
        counted(names.len(), "environment"),
        counted(systems.len(), "system"),
    ));
    pipeline.problem().map_or(Ok(()), Err)
}

pub(crate) fn plan(setup: &Setup, args: &PlanArgs) -> Result<()> {
    let (pipeline, run) = args.pipeline.open_with_warnings(setup)?;
    let request = args.planning.request(setup, args.publishing.publishing());
    let mut planned = cabane_pipeline::plan(setup, &pipeline, &run, &request)?;
    if !args.next.is_empty() {
        planned.retain(|one| one.stages.first().is_some_and(|next| args.next.contains(next)));
    }
    if args.json {
        setup.printer.json(&planned);
        return Ok(());
    }
    setup.printer.data(table(&planned));
    let left = planned.iter().filter(|one| !one.stages.is_empty()).count();
    setup.note(format_args!("left: {left} of {}", counted(planned.len(), "cell")));
    Ok(())
}

fn table(planned: &[PlannedCell<'_>]) -> Table {
    let mut table = Table::new(&["cell", "stages", "reason"]);
    for one in planned {
        let stages: Vec<&str> = one.stages.iter().copied().map(Stage::as_str).collect();
        let stages = if stages.is_empty() { "-".to_owned() } else { stages.join(" ") };
        table.push(&[&one.cell.name, &stages, &one.reason]);
    }
    table
}
