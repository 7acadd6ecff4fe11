// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache gc`: removing what is not needed any more.

use std::time::Duration;

use cabane_builder::{Limits, NotRemoved, clear_cache};
use cabane_label::{escape, shown};
use cabane_recipe::{parse_size, parse_time};
use cabane_report::{Kind, Report, Result, size};
use clap::Args;
use jiff::Timestamp;

use super::{CacheArgs, ls};
use crate::setup::Setup;

/// Remove items that no build used recently, or that exceed a size limit
#[derive(Debug, Args)]
#[command(after_help = "\
If a stack needs a package that was removed, it is built again. While a build uses the cache,
`gc` removes nothing. Downloads of Python packages stay: `cabane clean --cache` removes them.

Examples:
  cabane cache gc --older-than 90d --dry-run
  cabane cache gc --max-size 50G")]
pub(crate) struct GcArgs {
    /// Remove items that no build used for this long, such as 90d or 12w
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    older_than: Option<Duration>,
    /// Remove the least recently used items until the rest fits, such as 50G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Show what would be removed, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn gc(setup: &Setup, args: &GcArgs) -> Result<()> {
    let limits = Limits { older_than: args.older_than, max_size: args.max_size };
    if limits.older_than.is_none() && limits.max_size.is_none() {
        let hint =
            "`cabane cache gc --older-than 90d --dry-run` shows what no build used for 90 days";
        return Err(Report::new(Kind::Usage, "`--older-than` or `--max-size` is missing")
            .hinted(hint.to_owned()));
    }
    let directory = args.cache.directory(setup)?;
    let cleared = clear_cache(directory, &limits, Timestamp::now(), args.dry_run)?;
    if args.json {
        setup.printer.json(&cleared);
    } else if args.dry_run {
        let mut table = ls::table();
        cleared.removed.iter().for_each(|one| ls::push(&mut table, one));
        setup.printer.data(table);
    } else {
        for one in &cleared.removed {
            setup.note(format_args!("removed {} {}", one.kind.name(), escape(&ls::name(one))));
        }
    }
    let (freed, left) = (size(cleared.freed), size(cleared.left));
    let what = if args.dry_run { "would be freed" } else { "freed" };
    setup.note(format_args!("{freed} {what}, {left} left"));
    if let Some(first) = cleared.failed.first() {
        return Err(not_removed(first, cleared.failed.len()));
    }
    if args.max_size.is_some_and(|most| cleared.left > most) {
        setup.warning("the cache is still larger than `--max-size`: `gc` never removes the rest");
    }
    Ok(())
}

fn not_removed(first: &NotRemoved, count: usize) -> Report {
    let path = shown(&first.path);
    let more = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let message = format!("cannot remove {path}{more}: {}", escape(&first.reason));
    let directory = first.path.parent().unwrap_or(&first.path);
    let hint =
        format!("run it as the owner of the directory, which `ls -ld {}` shows", shown(directory));
    Report::new(Kind::Build, message).hinted(hint)
}
