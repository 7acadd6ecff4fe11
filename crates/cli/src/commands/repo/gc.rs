// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo gc`: unused and surplus images.

use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::Label;
use cabane_recipe::{RetentionSettings, parse_size, parse_time};
use cabane_report::{Kind, Report, Result, size};
use cabane_repository::{Cleared, Fate, Kept, Limits, Reason, Repository, Retention, Verdict};
use clap::Args;
use serde::Serialize;

use crate::commands::repo::deduplicate::deduplicate_unused;
use crate::commands::repo::maintain::repository_at;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;
use crate::table::Table;

/// Remove unused or surplus images
#[derive(Debug, Args)]
#[command(after_help = "\
Images that are pinned, in use on this host, or used or added within the last two days
(see --spare) are never removed. Set at least one limit here or in the configuration of
the repository. An image is removed with its last label.

Examples:
  cabane repo gc --older-than 90d --dry-run
  cabane repo gc --older-than 30d --keep-last 2 --max-size 500G")]
pub(crate) struct GcArgs {
    /// The repository; default: the one for new images
    path: Option<PathBuf>,
    /// Remove images unused for this long, such as 90d or 12w
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    older_than: Option<Duration>,
    /// Keep the newest N for each name, system, and microarchitecture; without another limit, remove all others
    #[arg(long, value_name = "N")]
    keep_last: Option<NonZeroU32>,
    /// Remove the least recently used images until the rest fits, such as 500G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Always keep images used or added within this time [default: 2d]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    spare: Option<Duration>,
    /// Show what would be removed and why the rest stays, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Someone may use an image on a host of which nothing is known here.
const SPARE: Duration = Duration::from_secs(2 * 24 * 60 * 60);

pub(crate) fn gc(setup: &Setup, args: &GcArgs) -> Result<ExitCode> {
    let repository = repository_at(setup, args.path.as_deref())?;
    let configured = configured(setup, &repository);
    let limits = limits(args, &configured)?;
    let retention = repository.retention(&limits)?;
    if !retention.notes_use {
        setup.warning(
            "the file system does not note when an image is read: what counts is when it was added",
        );
    }
    if args.dry_run {
        if args.json {
            setup.printer.json(&Answer::new(&retention, None));
        } else {
            setup.printer.data(table(&retention));
            summary(setup, &retention, &limits);
        }
        return Ok(exit_codes::SUCCESS);
    }
    let mut note_removed = |verdict: &Verdict| {
        if let Fate::Removed(reason) = verdict.fate {
            let (label, why) = (&verdict.label, reason_text(reason, verdict));
            setup.note(format_args!("removed {label}: {why}"));
        }
    };
    let cleared = repository.remove_excess(&retention, &mut note_removed)?;
    for (label, kept) in &cleared.spared {
        setup.note(format_args!("kept {label}: {}", kept_text(*kept)));
    }
    if args.json {
        setup.printer.json(&Answer::new(&retention, Some(&cleared)));
    }
    let (count, bytes) = (cleared.removed.images.len(), size(cleared.bytes));
    setup.note(format_args!("images removed: {count} ({bytes})"));
    warn_if_too_large(setup, retention.bytes_before.saturating_sub(cleared.bytes), &limits);
    if let Some(unused) = configured.deduplicate {
        deduplicate_unused(setup, &repository, unused)?;
    }
    Ok(exit_codes::SUCCESS)
}

/// Returns the limits of a repository in the configuration.
fn configured(setup: &Setup, repository: &Repository) -> RetentionSettings {
    let real = |path: &std::path::Path| fs::canonicalize(path).ok();
    let here = real(repository.path());
    let all = &setup.settings.repositories;
    all.iter()
        .find(|one| here.is_some() && real(&one.path) == here)
        .map(|one| one.retention.clone())
        .unwrap_or_default()
}

fn limits(args: &GcArgs, configured: &RetentionSettings) -> Result<Limits> {
    let limits = Limits {
        older_than: args.older_than.or(configured.older_than),
        keep_last: args.keep_last.or(configured.keep_last),
        max_size: args.max_size.or(configured.max_size),
        spare: args.spare.or(configured.spare).unwrap_or(SPARE),
    };
    let has_limit =
        limits.older_than.is_some() || limits.keep_last.is_some() || limits.max_size.is_some();
    if !has_limit && configured.deduplicate.is_none() {
        let error = "no limit is given, neither here nor in the configuration of the repository";
        let hint =
            "`cabane repo gc --older-than 90d --dry-run` shows what was not used for 90 days";
        return Err(Report::new(Kind::Usage, error).hinted(hint.to_owned()));
    }
    Ok(limits)
}

/// The output for programs.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    retention: &'a Retention,
    dry_run: bool,
    /// The labels that were removed.
    removed: Vec<&'a Label>,
    /// How many bytes that freed.
    freed: u64,
}

impl<'a> Answer<'a> {
    fn new(retention: &'a Retention, cleared: Option<&'a Cleared>) -> Self {
        let records = cleared.map(|cleared| &cleared.removed.records);
        Self {
            retention,
            dry_run: cleared.is_none(),
            removed: records.into_iter().flatten().map(|one| &one.label).collect(),
            freed: cleared.map_or(0, |cleared| cleared.bytes),
        }
    }
}

fn table(retention: &Retention) -> Table {
    let mut table = Table::new(&["label", "id", ">size", "used", "", "why"]);
    for one in &retention.labels {
        let (fate, why) = match one.fate {
            Fate::Kept(kept) => ("stays", kept_text(kept).to_owned()),
            Fate::Removed(reason) => ("goes", reason_text(reason, one)),
        };
        table.push(&[
            &one.label,
            &one.digest.id(),
            &size(one.size),
            &one.used.strftime("%F"),
            &fate,
            &why,
        ]);
    }
    table
}

fn summary(setup: &Setup, retention: &Retention, limits: &Limits) {
    let (before, after) = (retention.bytes_before, retention.bytes_after);
    setup.note(format_args!(
        "{} of {} would be freed",
        size(before.saturating_sub(after)),
        size(before)
    ));
    warn_if_too_large(setup, after, limits);
}

fn warn_if_too_large(setup: &Setup, bytes: u64, limits: &Limits) {
    if limits.max_size.is_some_and(|max_size| bytes > max_size) {
        setup.warning("the images are still larger than that: the others may not be removed");
    }
}

fn kept_text(kept: Kept) -> &'static str {
    match kept {
        Kept::Pinned => "pinned",
        Kept::Followed => "follows a channel",
        Kept::InUse => "in use on this host",
        Kept::Recent => "used or added a short while ago",
        Kept::Base => "an image that stays is built on it",
        Kept::Newest => "among the newest of its name",
        Kept::Closed => "closed to you",
        Kept::WithinLimits => "within the limits",
    }
}

fn reason_text(reason: Reason, verdict: &Verdict) -> String {
    match reason {
        Reason::Unused => format!("not used since {}", verdict.used.strftime("%F")),
        Reason::Surplus => "there are newer ones of its name".to_owned(),
        Reason::Size => format!(
            "the repository is too large, and it was not used since {}",
            verdict.used.strftime("%F")
        ),
    }
}
