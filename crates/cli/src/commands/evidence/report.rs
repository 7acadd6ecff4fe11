// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence report`: what the signed statements say together, as tables and as a page.

use std::path::PathBuf;

use cabane_check::{Results, Row, Suite, rows};
use cabane_evidence::{Evidence, Outcome, Standing, Wanted, runs};
use cabane_label::{System, escape};
use cabane_report::{Kind, Report, Result};
use clap::Args;
use jiff::Timestamp;

use super::ls::WhereArgs;
use crate::results::{OtherFigures, colored, described, json_of, write_page};
use crate::setup::Setup;
use crate::table::Table;

/// Report the newest results of all tests, with figures and plots
#[derive(Debug, Args)]
#[command(after_help = "\
The report uses the statements that count: those of a tester, for this image and this
system. Of several statements, the newest result of each test counts.

With --suite, the report also has the rows that the suite describes in rows/*.json: what
a paper claims, and what the tests measured. A difference counts only where the control
does not show it too.

Examples:
  cabane evidence report prgenv-gnu/25.6
  cabane evidence report prgenv-gnu/25.6 --suite ~/hpc-tests --html results.html
  cabane evidence report prgenv-gnu/25.6 --json")]
pub(crate) struct ReportArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// Describe the figures with the rows of this suite. Repeatable
    #[arg(long = "suite", value_name = "DIR|NAME")]
    suites: Vec<PathBuf>,
    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The system on which the image was tested; default: this system
    #[arg(long, value_name = "NAME")]
    on: Option<System>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn report(setup: &Setup, args: &ReportArgs) -> Result<()> {
    let suites = args.suites.iter().map(|path| Suite::find(setup, path, Vec::new()));
    let suites: Vec<Suite> = suites.collect::<Result<_>>()?;
    let described = described(suites.iter().map(|suite| suite.directory.as_path()))?;
    let (found, _) = args.place.find(setup, &args.image)?;
    let judged = found.judged(setup)?;
    let now = Timestamp::now();
    let wanted = Wanted::here(setup, args.on.as_ref(), None, now);
    let counting = runs(&judged, &wanted, now);
    if counting.is_empty() {
        return Err(nothing(&found.name, &judged, &wanted, &args.image));
    }
    let results = Results::of_evidence(&found.name, &found.digest, &counting);
    let rows = rows(&results, &described);
    if args.json {
        setup.printer.json(&json_of(&results, &rows));
    } else {
        setup.printer.data(text(&results, &rows, setup.is_verbose()));
    }
    match &args.html {
        Some(path) => write_page(path, &[results], &described),
        None => Ok(()),
    }
}

fn text(results: &Results, rows: &[Row<'_>], is_verbose: bool) -> String {
    let mut figures = OtherFigures::new(rows, is_verbose);
    let mut table = Table::new(&["test", "outcome", "ended", "reason"]);
    for test in &results.tests {
        let outcome = test.outcome.map(Outcome::as_str).unwrap_or_default();
        let ended = test.finished.map(|time| time.strftime("%F %R").to_string());
        let (name, ended) = (escape(&test.name), ended.unwrap_or_default());
        let said = figures.add(&test.name, test.reason.as_deref(), &test.figures);
        table.push(&[&name, &outcome, &ended, &said]);
    }
    let (id, outcome) = (results.digest.id(), colored(results.outcome()));
    let name = escape(&results.image);
    format!("{table}{}{name} ({id}): {outcome}\n", figures.text())
}

/// Why there is nothing to report.
fn nothing(name: &str, judged: &[Evidence], wanted: &Wanted, typed: &str) -> Report {
    let system = wanted.system.as_deref().map(|system| format!(" on {}", escape(system)));
    let message =
        format!("{} has no results that count{}", escape(name), system.unwrap_or_default());
    let ignored = judged.iter().filter(|one| !matches!(one.standing, Standing::Counts(_))).count();
    let hint = match ignored {
        0 => format!("`cabane check {typed} --key FILE` tests the image and signs the results"),
        _ => format!("`cabane evidence ls {typed}` shows why statements do not count"),
    };
    Report::new(Kind::NotFound, message).hinted(hint)
}
