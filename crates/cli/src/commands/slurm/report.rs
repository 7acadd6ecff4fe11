// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm report`: what the records of steps say.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use cabane_job::find_record_file;
use cabane_label::{escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_slurm_report::{Distribution, Summary, page, read};
use clap::Args;

use crate::setup::Setup;
use crate::table::{Table, heading};

/// Summarize the records of job steps: uses, failures, and slow nodes
#[derive(Debug, Args)]
#[command(after_help = "\
The report shows which users run which images, which nodes failed and why, how long images take
to mount on each node, and which nodes are slow. A node is slow if its median is more than twice
that of half of the nodes, after at least five starts. Lines that are no records are counted and
named.

Examples:
  cabane slurm report
  cabane slurm report --html report.html /var/log/cabane
  zcat steps-2026-*.jsonl.gz | cabane slurm report --json -
  cabane --repo /cabane/images slurm report --unused steps.jsonl")]
pub(crate) struct ReportArgs {
    /// Files of records, or directories of such files; `-` is standard input. Default: the file of `cabane slurm install --record`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also show the images of the repositories that no record names
    #[arg(long)]
    unused: bool,
    /// Show at most this many rows of each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON, with all rows
    #[arg(long)]
    json: bool,
}

pub(crate) fn report(setup: &Setup, args: &ReportArgs) -> Result<()> {
    let tally = read(&files(args)?)?;
    let repositories = if args.unused { setup.repositories()? } else { Vec::new() };
    let repositories: Vec<_> = repositories.iter().map(|named| &named.repository).collect();
    let summary = Summary::new(&tally, args.unused.then_some(repositories.as_slice()))?;
    for broken in &summary.broken {
        setup.warning(format_args!("{}:{}: {}", broken.file, broken.line, broken.why));
    }
    let named = u64::try_from(summary.broken.len()).unwrap_or(u64::MAX);
    if summary.counts.broken > named {
        setup.warning(format_args!("{} lines are no records", summary.counts.broken));
    }
    if let Some(path) = &args.html {
        fs::write(path, page("Images in jobs", &summary))
            .or_failed(|| format!("write `{}`", shown(path)))?;
    }
    if args.json {
        setup.printer.json(&summary);
    } else {
        setup.printer.data(text(&summary, args.rows));
    }
    Ok(())
}

fn files(args: &ReportArgs) -> Result<Vec<PathBuf>> {
    if !args.files.is_empty() {
        return Ok(args.files.clone());
    }
    find_record_file().map(|file| vec![file]).ok_or_else(|| {
        Report::new(Kind::Usage, "no file of records is given, and steps are not recorded to one")
            .hinted("`cabane slurm report FILE`".to_owned())
    })
}

/// A table under a heading, and how many rows it does not show.
fn add(text: &mut String, title: &str, all: usize, rows: usize, table: &Table) {
    if all == 0 {
        return;
    }
    heading(text, title);
    let _ = write!(text, "{table}");
    if let Some(more) = all.checked_sub(rows).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more: `--rows` shows them");
    }
}

fn text(summary: &Summary, rows: usize) -> String {
    let mut text = String::new();
    let counts = summary.counts;
    heading(&mut text, "Records");
    let _ = writeln!(
        text,
        "{} steps from {} to {}, {} ends, {} failures of further nodes",
        counts.steps,
        date(summary.first),
        date(summary.last),
        counts.ends,
        counts.node_failures
    );
    let failures = failures(summary, rows);
    add(&mut text, "Failures", summary.failures.len(), rows, &failures);
    add_starts(&mut text, summary, rows);
    add(&mut text, "Images", summary.images.len(), rows, &images(summary, rows));
    add(&mut text, "Users", summary.uses.len(), rows, &uses(summary, rows));
    if let Some(unused) = &summary.unused {
        let mut table = Table::new(&["label", "digest", ">MiB", "since"]);
        for image in unused.iter().take(rows) {
            let (digest, since) = (image.digest.to_string(), date(Some(image.date)));
            table.push(&[&image.label, &short(&digest), &image.size.div_ceil(1 << 20), &since]);
        }
        add(&mut text, "Unused", unused.len(), rows, &table);
    }
    text
}

fn date(time: Option<impl std::fmt::Display>) -> String {
    let text = time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    text.chars().take(10).collect()
}

/// A digest as it is shown elsewhere, or a path.
fn short(image: &str) -> String {
    if image.starts_with('/') {
        return escape(image).into_owned();
    }
    image.chars().take(16).collect()
}

fn failures(summary: &Summary, rows: usize) -> Table {
    let mut table = Table::new(&["nodes", ">number", ">steps", "users", "last", "why"]);
    for one in summary.failures.iter().take(rows) {
        let users = match one.users.as_slice() {
            [user] => escape(user).into_owned(),
            users => format!("{} users", users.len()),
        };
        let (nodes, last) = (escape(&one.nodes), date(one.last));
        table.push(&[&nodes, &one.node_count, &one.steps, &users, &last, &escape(&one.reason)]);
    }
    table
}

fn add_starts(text: &mut String, summary: &Summary, rows: usize) {
    let starts = summary.starts;
    let mut table = Table::new(&["step", ">number", ">median, ms", ">95 %", ">longest"]);
    let mut all = 0;
    let steps = [("look up", starts.lookup), ("open", starts.open), ("mount", starts.mount)];
    for (name, times) in steps {
        if let Some(times) = times {
            push_times(&mut table, &name, times, None);
            all += 1;
        }
    }
    add(text, "Start times", all, all, &table);
    let mut table = Table::new(&["node", ">starts", ">median, ms", ">95 %", ">longest", ""]);
    for one in summary.nodes.iter().take(rows) {
        push_times(&mut table, &escape(&one.node), one.times, Some(one.is_slow));
    }
    add(text, "Slowest nodes", summary.nodes.len(), rows, &table);
}

fn push_times(
    table: &mut Table,
    name: &dyn std::fmt::Display,
    times: Distribution,
    slow: Option<bool>,
) {
    let slow = slow.map(|is_slow| if is_slow { "slow" } else { "" });
    let cells: [&dyn std::fmt::Display; 5] =
        [name, &times.count, &times.median_ms, &times.p95_ms, &times.max_ms];
    match &slow {
        Some(slow) => table.push(&[&cells[..], &[slow]].concat()),
        None => table.push(&cells),
    }
}

fn images(summary: &Summary, rows: usize) -> Table {
    let columns =
        ["label", "image", ">users", ">steps", ">not mounted", ">exit code not 0", "last"];
    let mut table = Table::new(&columns);
    for one in summary.images.iter().take(rows) {
        let label = escape(one.label.as_deref().unwrap_or("-"));
        let (image, last) = (short(&one.image), date(one.last));
        let (steps, unmounted) = (&one.steps, &one.unmounted);
        table.push(&[&label, &image, &one.users, steps, unmounted, &one.failed, &last]);
    }
    table
}

fn uses(summary: &Summary, rows: usize) -> Table {
    let columns = ["user", "label", "image", ">steps", ">not mounted", ">exit code not 0", "last"];
    let mut table = Table::new(&columns);
    for one in summary.uses.iter().take(rows) {
        let label = escape(one.label.as_deref().unwrap_or("-"));
        let (image, last) = (short(&one.image), date(one.last));
        let (steps, unmounted) = (&one.steps, &one.unmounted);
        table.push(&[&escape(&one.user), &label, &image, steps, unmounted, &one.failed, &last]);
    }
    table
}
