// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline lock`: what the bases of recipes mean.

use std::collections::BTreeSet;

use cabane_label::{LabelPattern, shown};
use cabane_pipeline::{LockedBase, Selection};
use cabane_report::Result;
use clap::Args;

use crate::commands::pipeline::PipelineArgs;
use crate::setup::Setup;
use crate::table::{Table, counted};

/// Look up the container images and branches that recipes build on, and write the lock file
#[derive(Debug, Args)]
#[command(after_help = "\
The lock file contains the digest of each container image and the commit of each branch or
tag that a recipe names. It is beside the pipeline: pipeline.lock for pipeline.yaml.
Commit it. Builds use these digests and commits, and a cell is built again when it changes.

Examples:
  cabane pipeline lock
  cabane pipeline lock --dry-run
  cabane pipeline lock --only app")]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Only the bases of these cells: any part of name/version@system%uarch. Repeatable
    #[arg(long, value_name = "PATTERN")]
    only: Vec<LabelPattern>,
    /// Show what has changed, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn lock(setup: &Setup, args: &LockArgs) -> Result<()> {
    let (pipeline, _) = args.pipeline.open()?;
    let selection = Selection { only: args.only.clone(), systems: Vec::new() };
    let locked = pipeline.lock(setup, &selection, args.dry_run)?;
    let changed: Vec<&LockedBase> = locked.iter().filter(|base| base.is_changed()).collect();
    if args.json {
        setup.printer.json(&locked);
    } else if !changed.is_empty() {
        let mut table = Table::new(&["base", "before", "now", "cells"]);
        for base in &changed {
            let before = base.before.as_deref().map_or("-", short);
            table.push(&[&base.base, &before, &short(&base.now), &base.cells.len()]);
        }
        setup.printer.data(table);
    }
    let cells: BTreeSet<_> = changed.iter().flat_map(|base| &base.cells).collect();
    let (bases, cells) = (counted(locked.len(), "base"), counted(cells.len(), "cell"));
    let (count, file) = (changed.len(), pipeline.lock_file());
    let what = if args.dry_run { "would be written" } else { "was written" };
    match count {
        0 => setup.note(format_args!("nothing has changed in {bases}")),
        _ => setup
            .note(format_args!("{count} of {bases} changed ({cells}); {} {what}", shown(&file))),
    }
    Ok(())
}

/// Returns the first digits of a digest or commit.
fn short(meaning: &str) -> &str {
    let digits = meaning.strip_prefix("sha256:").unwrap_or(meaning);
    digits.get(..16).unwrap_or(digits)
}
