// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline status` and `logs`: what came of each cell.

use cabane_evidence::Outcome;
use cabane_label::escape;
use cabane_pipeline::{CellName, CellSummary, Stage};
use cabane_report::{Kind, Report, Result};
use clap::Args;

use crate::commands::pipeline::{PipelineArgs, SelectionArgs, code_of_all};
use crate::exit_codes::ExitCode;
use crate::setup::Setup;
use crate::table::{Table, counted};

/// The most bytes of a log that are printed.
const MAX_LOG: u64 = 64 << 20;

/// Show the results of each cell
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the log of a stage
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane pipeline logs app/1.0@daint%gh200
  cabane pipeline logs app/1.0@daint%gh200 build")]
pub(crate) struct LogsArgs {
    /// The cell: name/version@system%uarch
    #[arg(value_parser = |text: &str| text.parse::<CellName>().map_err(|error| error.to_string()))]
    cell: CellName,
    /// The stage; default: the one that did not pass, or the last one
    stage: Option<Stage>,
    #[command(flatten)]
    pipeline: PipelineArgs,
}

pub(crate) fn status(setup: &Setup, args: &StatusArgs) -> Result<ExitCode> {
    let (pipeline, run) = args.pipeline.open()?;
    let cells = pipeline.select(&args.selection.selection(setup))?;
    let summaries: Vec<CellSummary> =
        cells.iter().map(|cell| CellSummary::of(&run, cell)).collect();
    let outcomes: Vec<Outcome> = summaries.iter().filter_map(|one| one.outcome).collect();
    if args.json {
        setup.printer.json(&summaries);
    } else {
        print_summaries(setup, &summaries);
    }
    Ok(code_of_all(&outcomes))
}

/// Prints what came of cells, and why some did not pass.
pub(super) fn print_summaries(setup: &Setup, summaries: &[CellSummary]) {
    let mut table = Table::new(&["cell", "build", "check", "publish", "promote"]);
    for summary in summaries {
        let words = Stage::ALL.map(|stage| match summary.stage(stage) {
            Some(result) => result.outcome.as_str(),
            None => "-",
        });
        let [build, check, publish, promote] = &words;
        table.push(&[&summary.cell, build, check, publish, promote]);
    }
    setup.printer.data(table);
    for summary in summaries {
        let Some(culprit) = summary.culprit() else { continue };
        let message = culprit.message.as_deref().unwrap_or_default();
        let first = escape(message.lines().next().unwrap_or_default()).into_owned();
        let (cell, stage, outcome) = (&summary.cell, culprit.stage, culprit.outcome);
        setup.warning(format_args!("{cell}: {stage} {outcome}: {first}"));
        match culprit.hints.first() {
            Some(hint) => setup.hint(escape(hint)),
            None => {
                setup.hint(format_args!("`cabane pipeline logs {cell} {stage}` prints its log"));
            }
        }
    }
    let count = |outcome| summaries.iter().filter(|one| one.outcome == outcome).count();
    let counts = Outcome::ALL.map(Some).into_iter().map(|outcome| (outcome, count(outcome)));
    let words = counts.filter(|(_, count)| *count > 0);
    let words =
        words.map(|(outcome, count)| format!("{count} {}", outcome.map_or("", Outcome::as_str)));
    let mut words: Vec<String> = words.collect();
    let idle = count(None);
    if idle > 0 {
        words.push(format!("{idle} without a result"));
    }
    setup.note(format_args!("{}: {}", counted(summaries.len(), "cell"), words.join(", ")));
}

pub(crate) fn logs(setup: &Setup, args: &LogsArgs) -> Result<()> {
    let (pipeline, run) = args.pipeline.open()?;
    let cell = pipeline.cell(&args.cell)?;
    let summary = CellSummary::of(&run, cell);
    let last = || Stage::ALL.into_iter().rev().find(|stage| run.log(&cell.name, *stage).is_file());
    let stage = args.stage.or_else(|| summary.culprit().map(|one| one.stage)).or_else(last);
    let text = stage.and_then(|stage| run.end_of_log(&cell.name, stage, MAX_LOG));
    let text = text.ok_or_else(|| {
        let message = format!("there is no log of {}", cell.name);
        Report::new(Kind::NotFound, message)
            .hinted("`cabane pipeline status` shows what was done".to_owned())
    })?;
    // Programs of a build may write anything.
    let lines: Vec<_> = text.lines().map(|line| escape(line).into_owned() + "\n").collect();
    setup.printer.data(lines.concat());
    Ok(())
}
