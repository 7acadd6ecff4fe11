// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Results of checks: comparisons as a table, and the page.

use std::fs;
use std::path::Path;

use cabane_check::{Results, Row, RowAnswer, RowDescription, read_rows, results_page};
use cabane_evidence::{Measured, Outcome};
use cabane_label::{escape, shown};
use cabane_report::{IoContext, Result};
use serde_json::{Value, json};

use crate::printer::style;
use crate::table::{Table, counted, heading};

/// How many figures of a test are shown in its line.
const FEW: usize = 2;

/// The figures of tests that no comparison has: a few in the line of the test, and more in a table for each
/// test.
pub(crate) struct OtherFigures<'r> {
    rows: &'r [Row<'r>],
    is_verbose: bool,
    tables: String,
}

impl<'r> OtherFigures<'r> {
    /// Starts without figures. With `is_verbose`, all of them have tables.
    pub(crate) fn new(rows: &'r [Row<'r>], is_verbose: bool) -> Self {
        Self { rows, is_verbose, tables: String::new() }
    }

    /// Adds a test, and returns what its line says: the reason for its outcome, and a few figures or their
    /// number.
    pub(crate) fn add(&mut self, test: &str, reason: Option<&str>, figures: &[Measured]) -> String {
        let is_other = |one: &&Measured| !self.rows.iter().any(|row| row.has(&one.variable));
        let figures: Vec<&Measured> = figures.iter().filter(is_other).collect();
        let mut said: Vec<String> = reason.iter().map(|reason| escape(reason).into()).collect();
        if figures.len() > FEW || (self.is_verbose && !figures.is_empty()) {
            said.push(format!("{}, see below", counted(figures.len(), "figure")));
            self.add_table(test, &figures);
        } else {
            said.extend(figures.iter().map(|figure| {
                let space = if figure.unit.is_empty() { "" } else { " " };
                let (name, unit) = (escape(&figure.variable), escape(&figure.unit));
                format!("{name} {}{space}{unit}", figure.value)
            }));
        }
        said.join("; ")
    }

    fn add_table(&mut self, test: &str, figures: &[&Measured]) {
        let mut table = Table::new(&["figure", ">value", "unit"]).without_head();
        for figure in figures {
            table.push(&[&escape(&figure.variable), &figure.value, &escape(&figure.unit)]);
        }
        // The table of tests is before it.
        self.tables.push('\n');
        let mut titled = String::new();
        heading(&mut titled, &escape(test));
        self.tables += &titled;
        self.tables += &table.indented();
    }

    /// Returns the tables, and then the comparisons.
    pub(crate) fn text(self) -> String {
        let rows = text_of_rows(self.rows);
        let space = if self.tables.is_empty() { "" } else { "\n" };
        format!("{}{space}{rows}", self.tables)
    }
}

/// Reads what suites say about their rows.
pub(crate) fn described<'d>(suites: impl Iterator<Item = &'d Path>) -> Result<Vec<RowDescription>> {
    let rows: Vec<Vec<RowDescription>> = suites.map(read_rows).collect::<Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// Writes the page with the results of images.
pub(crate) fn write_page(
    path: &Path,
    results: &[Results],
    described: &[RowDescription],
) -> Result<()> {
    let title = match results {
        [one] => format!("Results of {}", one.image),
        _ => "Results of images".to_owned(),
    };
    fs::write(path, results_page(&title, results, described))
        .or_failed(|| format!("write `{}`", shown(path)))
}

/// Writes the comparisons as a table; nothing without any.
fn text_of_rows(rows: &[Row<'_>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(&["comparison", ">claim", ">ratio", "quartiles", "control", "answer"]);
    for row in rows {
        let number = |value: f64| format!("{value:.3}");
        let range = |(low, high)| format!("{} to {}", number(low), number(high));
        let claim = row.description.and_then(|one| one.claim).map(number).unwrap_or_default();
        let ratio = row.ratio.as_ref();
        let median = ratio.map(|ratio| number(ratio.median)).unwrap_or_default();
        let quartiles = ratio.map(|ratio| range(ratio.quartiles)).unwrap_or_default();
        let control = ratio.and_then(|ratio| ratio.control).map(range).unwrap_or_default();
        let (name, answer) = (escape(&row.name), answer(&row.answer));
        table.push(&[&name, &claim, &median, &quartiles, &control, &answer]);
    }
    format!("{table}")
}

fn answer(answer: &RowAnswer) -> String {
    let color = match answer {
        RowAnswer::Better | RowAnswer::Same => style::GOOD,
        RowAnswer::Worse => style::ERROR,
        RowAnswer::Different => style::WARNING,
        _ => style::FAINT,
    };
    let text = answer.to_string();
    format!("{color}{}{color:#}", escape(&text))
}

/// Returns the results of an image with its comparisons, as JSON.
pub(crate) fn json_of(results: &Results, rows: &[Row<'_>]) -> Value {
    json!({
        "image": results.image,
        "digest": results.digest,
        "outcome": results.outcome(),
        "started": results.started,
        "finished": results.finished,
        "statements": results.statements,
        "hosts": results.hosts,
        "tests": results.tests,
        "rows": rows,
    })
}

/// Writes an outcome with its color.
pub(crate) fn colored(outcome: Outcome) -> String {
    let color = match outcome {
        Outcome::Passed => style::GOOD,
        Outcome::Failed => style::ERROR,
        Outcome::Error => style::WARNING,
        Outcome::NotTested => style::FAINT,
    };
    format!("{color}{outcome}{color:#}")
}
