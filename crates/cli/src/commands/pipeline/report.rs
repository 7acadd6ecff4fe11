// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline report`: what came of each cell, as a web page.

use std::path::PathBuf;

use cabane_label::{LabelPattern, shown};
use cabane_pipeline::{Page, Selection};
use cabane_registry::write_at_once_with_umask;
use cabane_report::{IoContext, Result};
use clap::Args;

use crate::commands::pipeline::PipelineArgs;
use crate::setup::Setup;

/// Write the results of each cell as a web page
#[derive(Debug, Args)]
#[command(after_help = "\
The page is one file. It shows the outcome of each cell in a table, and for each cell its
stages, checks, and figures. If a stage failed, the page has the end of its log. Figures
that several cells have are compared.

The page runs no script and loads nothing, so you can mail it or put it on any web server.

Examples:
  cabane pipeline report
  cabane pipeline report --only @daint -o daint.html")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// The page; default: report.html in the directory of the run
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these cells: any part of name/version@system%uarch. Repeatable
    #[arg(long, value_name = "PATTERN")]
    only: Vec<LabelPattern>,
}

pub(crate) fn report(setup: &Setup, args: &ReportArgs) -> Result<()> {
    let (pipeline, run) = args.pipeline.open_with_warnings(setup)?;
    // Those of all systems: a page compares them.
    let selection = Selection { only: args.only.clone(), systems: Vec::new() };
    let cells = pipeline.select(&selection)?;
    let page = Page::of(&pipeline, &run, &cells);
    let output = args.output.clone().unwrap_or_else(|| run.root().join("report.html"));
    let written = std::path::absolute(&output)
        .and_then(|path| write_at_once_with_umask(&path, page.html().as_bytes()));
    written.or_failed(|| format!("write {}", shown(&output)))?;
    setup.note(format_args!("wrote {}; {}", shown(&output), page.counts()));
    Ok(())
}
