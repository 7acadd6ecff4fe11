// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry gc`: labels that nobody needs any more.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::{LabelPattern, Namespace};
use cabane_recipe::parse_time;
use cabane_registry_admin::{Fate, Limits, execute_gc, plan_gc};
use cabane_report::{Kind, Report, Result, size};
use clap::Args;

use super::namespace;
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// Delete old or surplus images
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry gc --older-than 180d --dry-run
  cabane registry gc build --keep-last 3 --pin prgenv-gnu/24.7 --records /var/log/cabane

Images that a channel of the configuration releases, or released in the state
before, are never deleted, nor are pinned ones, those younger than --spare, and
those on which images that stay are built. With --records, an image is as old as
its last use by a job. An image is deleted with its last label.")]
pub(crate) struct GcArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    /// Only these labels; default: all of the namespace. Repeatable
    #[arg(long = "only", value_name = "LABEL")]
    patterns: Vec<LabelPattern>,
    /// Delete images neither pushed nor used for this long, such as 90d or 12w
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    older_than: Option<Duration>,
    /// Keep the newest N for each name, system, and microarchitecture; without --older-than, delete all others
    #[arg(long, value_name = "N")]
    keep_last: Option<NonZeroU32>,
    /// Keep these labels. Repeatable
    #[arg(long = "pin", value_name = "LABEL")]
    pins: Vec<LabelPattern>,
    /// Records of job steps: a file, or a directory with such files. Repeatable
    #[arg(long, value_name = "PATH")]
    records: Vec<PathBuf>,
    /// Always keep images pushed or used within this time
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2d")]
    spare: Duration,
    /// Show what would be deleted and why the rest stays, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn gc(setup: &Setup, args: &GcArgs) -> Result<()> {
    if args.older_than.is_none() && args.keep_last.is_none() {
        return Err(Report::new(Kind::Usage, "no limit is set")
            .hinted("--older-than TIME and --keep-last N set one".to_owned()));
    }
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let limits = Limits {
        older_than: args.older_than,
        keep_last: args.keep_last,
        spare: args.spare,
        pins: args.pins.clone(),
        records: args.records.clone(),
    };
    let plan = plan_gc(setup, &connection, &namespace, &args.patterns, &limits)?;
    if args.json {
        setup.printer.json(&plan);
    } else if args.dry_run {
        let mut table = Table::new(&["label", "id", ">size", "", "reason"]);
        for one in &plan.labels {
            let (fate, reason) = match &one.fate {
                Fate::Kept(reason) => ("keep", reason),
                Fate::Removed(reason) => ("delete", reason),
            };
            table.push(&[&one.label, &one.digest.id(), &size(one.size), &fate, reason]);
        }
        setup.printer.data(table);
    }
    let freed = size(plan.bytes_before.saturating_sub(plan.bytes_after));
    let count = plan.removed().count();
    let labels = if count == 1 { "label" } else { "labels" };
    if args.dry_run {
        setup.note(format_args!("{count} {labels} would be deleted, {freed} less"));
        return Ok(());
    }
    execute_gc(&connection, &plan, &mut |one| {
        if !args.json {
            setup.note(format_args!("deleted {namespace}::{} ({})", one.label, one.digest.id()));
        }
    })?;
    setup
        .note(format_args!("deleted {count} {labels}, {freed} less; the registry frees the space"));
    Ok(())
}
