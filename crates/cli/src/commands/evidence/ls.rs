// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence ls`, `show`, and `verify`.

use std::time::Duration;

use cabane_evidence::{Evidence, PROVENANCE, Standing, Wanted, built_from, tested};
use cabane_label::{System, escape, shown};
use cabane_recipe::parse_time;
use cabane_registry::AttachedReport;
use cabane_report::{Kind, Report, Result};
use cabane_transfer::{Connection, FoundEvidence, attached_reports, find_evidence};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::exit_codes::{self, ExitCode};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// Where the statements are.
#[derive(Debug, Args)]
pub(super) struct WhereArgs {
    /// Read from the registry instead of the repositories
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl WhereArgs {
    /// Connects to the registry if the statements are read there.
    pub(super) fn connect(&self, setup: &Setup) -> Result<Option<Connection>> {
        self.remote.then(|| self.registry.connect(setup)).transpose()
    }

    pub(super) fn find(
        &self,
        setup: &Setup,
        image: &str,
    ) -> Result<(FoundEvidence, Option<Connection>)> {
        let connection = self.connect(setup)?;
        Ok((find_evidence(setup, connection.as_ref(), image)?, connection))
    }
}

/// List what was tested and built, when, where, and by whom
#[derive(Debug, Args)]
#[command(after_help = "\
Results of tests count with the key of a tester, and provenance with the key
of a builder: `testers` and `builders` below `[evidence]` in the configuration.
The others are listed with the reason. With --remote, reports of other tools are
listed as well. They are not signed and never count.

Examples:
  cabane evidence ls prgenv-gnu/25.6
  cabane evidence ls prgenv-gnu/25.6 --remote")]
pub(crate) struct LsArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: WhereArgs,
}

/// Show one statement
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// The first digits of the statement's ID; default: the newest statement
    id: Option<String>,
    #[command(flatten)]
    place: WhereArgs,
}

/// Check whether an image passed its tests, or where its recipe comes from
#[derive(Debug, Args)]
#[command(after_help = "\
The newest statement of a tester for the system decides. Without one, the
image is NOT TESTED.

With --built-from, the tests do not matter: a builder must have signed that
the recipe is an unchanged commit of this Git repository.

Examples:
  cabane evidence verify prgenv-gnu/25.6 --since 30d
  cabane evidence verify prgenv-gnu/25.6 --built-from https://github.com/eth-cscs/alps-uenv

The exit code is 16 if the tests failed, 17 if they could not run, and 18 if
nothing was tested.")]
pub(crate) struct VerifyArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// The system on which it was tested; default: this system
    #[arg(long, value_name = "NAME")]
    on: Option<System>,
    /// Ignore results that are older, such as 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Duration>,
    /// Check instead that the recipe is in this Git repository; "*" allows any recipe. Repeatable
    #[arg(long, value_name = "URL", conflicts_with_all = ["on", "since"])]
    built_from: Vec<String>,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let (found, connection) = args.place.find(setup, &args.image)?;
    let judged = found.judged(setup)?;
    let reports = match (&connection, &found.remote) {
        (Some(connection), Some(image)) => attached_reports(connection, image)?,
        _ => Vec::new(),
    };
    if args.json {
        let values = judged.iter().map(value).chain(reports.iter().map(value_of_report));
        setup.printer.json(&values.collect::<Vec<_>>());
        return Ok(());
    }
    if judged.is_empty() && reports.is_empty() {
        setup.note(format_args!("{}: no evidence", found.name));
        setup.hint("`cabane check IMAGE --key FILE` tests an image and signs the results");
    }
    let mut table = Table::new(&["id", "date", "outcome", "system", "generation", "by", "counts"]);
    for one in &judged {
        let date = one.details.finished.map(|time| time.strftime("%F %R").to_string());
        let system = one.details.system.as_deref().unwrap_or_default();
        let runner = &one.details.runner;
        let by = format!("{} {}", escape(&runner.name), escape(&runner.version));
        let counts = match &one.standing {
            Standing::Counts(file) => format!("yes, {}", shown(file)),
            Standing::Ignored(reason) => format!("no, {}", escape(reason)),
        };
        let (date, outcome) = (date.unwrap_or_default(), what(one));
        let generation = escape(one.details.generation.as_deref().unwrap_or_default());
        let (id, system) = (one.id.id(), escape(system));
        table.push(&[&id, &date, &outcome, &system, &generation, &by.trim(), &counts]);
    }
    for report in &reports {
        let date = report.created.map(|time| time.strftime("%F %R").to_string());
        let (id, date, kind) = (report.manifest.id(), date.unwrap_or_default(), report.kind.name());
        table.push(&[&id, &date, &"report", &"", &"", &kind, &format!("no, {UNSIGNED}")]);
    }
    setup.printer.data(table);
    Ok(())
}

/// Why reports of other tools do not count.
const UNSIGNED: &str = "not signed";

fn value_of_report(report: &AttachedReport) -> Value {
    json!({
        "id": report.manifest,
        "outcome": Value::Null,
        "standing": {"standing": "ignored", "detail": UNSIGNED},
        "report": report.kind.name(),
        "created": report.created,
    })
}

/// The outcome of tests, or the type of another statement.
fn what(one: &Evidence) -> String {
    match one.outcome {
        Some(outcome) => outcome.to_string(),
        None if one.statement.predicate_type == PROVENANCE => "provenance".to_owned(),
        None => escape(&one.statement.predicate_type).into_owned(),
    }
}

fn value(one: &Evidence) -> Value {
    json!({
        "id": one.id,
        "outcome": one.outcome,
        "standing": one.standing,
        "statement": one.statement,
    })
}

pub(crate) fn show(setup: &Setup, args: &ShowArgs) -> Result<()> {
    let (found, _) = args.place.find(setup, &args.image)?;
    let wanted = args.id.as_deref().unwrap_or_default();
    let judged = found.judged(setup)?;
    let one = judged.iter().find(|one| one.id.as_str().starts_with(wanted)).ok_or_else(|| {
        let message = format!("{} has no such statement", found.name);
        let hint = format!("`cabane evidence ls {}` lists its statements", args.image);
        Report::new(Kind::NotFound, message).hinted(hint)
    })?;
    setup.printer.json(&value(one));
    Ok(())
}

pub(crate) fn verify(setup: &Setup, args: &VerifyArgs) -> Result<ExitCode> {
    let (found, _) = args.place.find(setup, &args.image)?;
    let now = Timestamp::now();
    if !args.built_from.is_empty() {
        let verdict = built_from(&found.judged(setup)?, &args.built_from, now);
        if verdict.statement.is_none() {
            let message = format!("{}: {}", found.name, verdict.evidence);
            return Err(Report::new(Kind::Untrusted, message)
                .hinted("`cabane build --key FILE` signs the provenance of an image".to_owned()));
        }
        setup.printer.data(format_args!("{}: {}\n", found.name, verdict.evidence));
        return Ok(exit_codes::SUCCESS);
    }
    let wanted = Wanted::here(setup, args.on.as_ref(), args.since, now);
    let verdict = tested(&found.judged(setup)?, &wanted, now);
    setup.printer.data(format_args!("{}: {}: {}\n", found.name, verdict.outcome, verdict.evidence));
    Ok(verdict.outcome.into())
}
