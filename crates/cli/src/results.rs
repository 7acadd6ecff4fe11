// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Results of checks: comparisons as a table, and the page.

use std::fs;
use std::path::Path;

use cabane_check::{Results, Row, RowAnswer, RowDescription, read_rows, results_page};
use cabane_evidence::Outcome;
use cabane_label::{escape, shown};
use cabane_report::{IoContext, Result};

use crate::printer::style;
use crate::table::Table;

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
pub(crate) fn text_of_rows(rows: &[Row<'_>]) -> String {
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
