// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The tests on the page, and their figures that belong to no comparison. Pure.

use std::fmt::Write as _;

use cabane_evidence::Measured;
use cabane_web_page::plot::{Axis, PlotRow, RowPlot, Rows};
use cabane_web_page::{chip, date, duration, is_outside, limits, line, lines, number, permitted};

use super::page::{LONGEST_NAME, LONGEST_TEXT, value_of};
use super::row::Row;
use super::{Results, TestResult};

/// The most figures in a table. A statement can have any number.
const MOST: usize = 1000;

/// Writes the tests, and then their other figures.
pub(super) fn add(page: &mut String, results: &Results, rows: &[Row<'_>]) {
    page.push_str(
        "<h3>Tests</h3>\n<table>\n<caption>The newest result of each test</caption>\n<tr>",
    );
    for column in ["test", "outcome", "ended", "reason"] {
        let _ = write!(page, "<th scope=\"col\" class=\"w\">{column}</th>");
    }
    page.push_str("</tr>\n");
    for test in &results.tests {
        let mut reason = lines(test.reason.as_deref().unwrap_or_default(), LONGEST_TEXT);
        for one in test.unmeasured.iter().filter(|one| !is_told(&one.figure, rows)) {
            let (figure, why) = (line(&one.figure, LONGEST_NAME), lines(&one.reason, LONGEST_TEXT));
            let _ = write!(reason, "<p>{figure} was left out: {why}</p>");
        }
        let took = test.seconds.map(|seconds| format!("<br>after {}", duration(seconds)));
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td class=\"w\">{}</td><td class=\"w\">{}{}</td><td>{reason}</td></tr>",
            line(&test.name, LONGEST_NAME),
            chip(test.outcome),
            test.finished.map(date).unwrap_or_default(),
            took.unwrap_or_default()
        );
    }
    page.push_str("</table>\n");
    let figures: Vec<(&TestResult, &Measured)> = results
        .tests
        .iter()
        .flat_map(|test| test.figures.iter().map(move |figure| (test, figure)))
        .filter(|(_, figure)| !rows.iter().any(|row| row.has(&figure.variable)))
        .collect();
    if !figures.is_empty() {
        page.push_str("<h3>Other figures</h3>\n");
        page.push_str(&plot(&figures));
        add_figures(page, &figures);
    }
}

/// Whether a reason is beside a row already.
fn is_told(figure: &str, rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.description.is_some() && row.name.starts_with(figure))
}

fn add_figures(page: &mut String, figures: &[(&TestResult, &Measured)]) {
    page.push_str("<table>\n<caption>What tests measured beside comparisons</caption>\n<tr>");
    for column in ["figure", "value", "permitted"] {
        let _ = write!(page, "<th scope=\"col\" class=\"w\">{column}</th>");
    }
    page.push_str("</tr>\n");
    for (test, figure) in figures.iter().take(MOST) {
        let outside = if is_outside(figure) { " <b>outside</b>" } else { "" };
        let reference = figure.reference.map(|one| format!("; reference {}", number(one)));
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}: {}</th><td class=\"w\">{}{outside}</td><td class=\"w\">{}{}</td></tr>",
            line(&test.name, LONGEST_NAME),
            line(&figure.variable, LONGEST_NAME),
            value_of(figure),
            permitted(figure),
            reference.unwrap_or_default()
        );
    }
    page.push_str("</table>\n");
    if let Some(more) = figures.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(page, "<p>{more} more figures are in the statements.</p>");
    }
}

/// Draws the figures that have a reference, each as a part of it.
fn plot(figures: &[(&TestResult, &Measured)]) -> String {
    let row = |(test, figure): &(&TestResult, &Measured)| {
        let reference = figure.reference.filter(|reference| *reference > 0.0)?;
        let (lower, upper) = limits(figure);
        let part = |limit: Option<f64>, open: f64| limit.map_or(open, |limit| limit / reference);
        let has_limit = lower.is_some() || upper.is_some();
        let band = (part(lower, f64::NEG_INFINITY), part(upper, f64::INFINITY));
        Some(PlotRow {
            name: format!("{} {}", test.name, figure.variable),
            value: Some(figure.value / reference),
            interval: None,
            band: has_limit.then_some(band),
            mark: Some(1.0),
            is_bad: is_outside(figure),
        })
    };
    RowPlot {
        title: "Figures as parts of their references",
        description: "The vertical line is the reference, and the shaded band is permitted. A diamond is outside.",
        axis: Axis { name: "figure / reference".to_owned(), format: number },
        kind: Rows::Points {
            value: "figure / reference",
            interval: "interval",
            band: "permitted",
            mark: "reference",
        },
        rows: figures.iter().filter_map(row).collect(),
    }
    .html()
}
