// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Figures of checks as small plots, each with the numbers beside it. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cabane_evidence::Measured;
use cabane_web_page::plot::{Axis, PlotRow, RowPlot, Rows};
use cabane_web_page::{is_outside, limits, line, number, permitted, with_unit};

use crate::cell::CellName;
use crate::stage::StageResult;
use crate::summary::CellSummary;

/// The most plots of a page. Other figures are numbers only.
pub(super) const MOST_PLOTS: usize = 80;
/// The most characters of the name of a check or a figure.
const LONGEST_NAME: usize = 80;

const PARTS: Rows =
    Rows::Points { value: "value", interval: "", band: "permitted", mark: "reference" };
const LEGEND: &str = "The shaded band is permitted, and the vertical line is the reference. A disk is inside, a diamond outside.";

/// A figure as a row of a plot, with the numbers divided by `unit`.
fn row(name: String, figure: &Measured, unit: f64) -> PlotRow {
    let (lower, upper) = limits(figure);
    let has_limit = lower.is_some() || upper.is_some();
    let (low, high) = (lower.unwrap_or(f64::NEG_INFINITY), upper.unwrap_or(f64::INFINITY));
    PlotRow {
        name,
        value: Some(figure.value / unit),
        interval: None,
        band: has_limit.then_some((low / unit, high / unit)),
        mark: figure.reference.map(|reference| reference / unit),
        is_bad: is_outside(figure),
    }
}

/// The plots that may still be drawn.
pub(super) struct Plots(pub(super) usize);

impl Plots {
    fn add(&mut self, page: &mut String, plot: &RowPlot<'_>) {
        if self.0 > 0 {
            self.0 -= 1;
            page.push_str(&plot.html());
        }
    }

    /// Writes the figures of one cell: as numbers, and those with a reference as parts of it.
    pub(super) fn add_cell(&mut self, page: &mut String, stage: &StageResult) {
        let checks = || stage.report.iter().flat_map(|report| &report.checks);
        if checks().all(|check| check.figures.is_empty()) {
            return;
        }
        page.push_str("<h4>Figures</h4>\n<table>\n<tr>");
        for column in ["figure", "value", "permitted"] {
            let _ = write!(page, "<th scope=\"col\">{column}</th>");
        }
        page.push_str("</tr>\n");
        let mut rows = Vec::new();
        for check in checks() {
            for figure in &check.figures {
                add_row(page, &check.name, figure);
                if let Some(reference) = figure.reference.filter(|reference| *reference > 0.0) {
                    rows.push(row(
                        format!("{} {}", check.name, figure.variable),
                        figure,
                        reference,
                    ));
                }
            }
        }
        page.push_str("</table>\n");
        let plot = RowPlot {
            title: "Figures as parts of their references",
            description: LEGEND,
            axis: Axis { name: "figure / reference".to_owned(), format: number },
            kind: PARTS,
            rows,
        };
        self.add(page, &plot);
    }

    /// Writes one plot for each figure that several cells of an environment have.
    pub(super) fn add_comparisons(&mut self, page: &mut String, all: &[Comparison<'_>]) {
        let _ = writeln!(
            page,
            "<h2 id=\"figures\">Compare the systems</h2>\n<p>{LEGEND}</p>\n<div class=\"plots\">"
        );
        for one in all {
            let rows = one.rows.iter().map(|(cell, figure)| {
                let name = format!("{}@{}%{}", cell.version, cell.system, cell.uarch);
                row(name, figure, 1.0)
            });
            let unit: String = one.unit.chars().take(40).collect();
            let name = if unit.is_empty() { "value".to_owned() } else { format!("value, {unit}") };
            let short = |text: &str| text.chars().take(LONGEST_NAME).collect::<String>();
            let plot = RowPlot {
                title: &format!(
                    "{}: {}, {}",
                    one.environment,
                    short(one.check),
                    short(one.variable)
                ),
                description: "One row for each system.",
                axis: Axis { name, format: number },
                kind: PARTS,
                rows: rows.collect(),
            };
            self.add(page, &plot);
        }
        page.push_str("</div>\n");
    }
}

fn add_row(page: &mut String, check: &str, figure: &Measured) {
    let outside = if is_outside(figure) { " <b>outside</b>" } else { "" };
    let reference = figure.reference.map(|one| format!("; reference {}", number(one)));
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\">{}: {}</th><td class=\"w\">{}{outside}</td><td class=\"w\">{}{}</td></tr>",
        line(check, LONGEST_NAME),
        line(&figure.variable, LONGEST_NAME),
        with_unit(figure.value, &figure.unit),
        permitted(figure),
        reference.unwrap_or_default()
    );
}

/// A figure that several cells have.
pub(super) struct Comparison<'p> {
    environment: &'p str,
    check: &'p str,
    variable: &'p str,
    unit: &'p str,
    rows: Vec<(&'p CellName, &'p Measured)>,
}

impl<'p> Comparison<'p> {
    /// Finds the figures that several cells of an environment have.
    pub(super) fn all(cells: impl Iterator<Item = &'p CellSummary>) -> Vec<Self> {
        let mut found: BTreeMap<[&str; 4], Vec<(&CellName, &Measured)>> = BTreeMap::new();
        for summary in cells {
            let reports = summary.stages.iter().filter_map(|stage| stage.report.as_ref());
            for check in reports.flat_map(|report| &report.checks) {
                for figure in &check.figures {
                    let environment = summary.cell.name.as_str();
                    let key = [environment, &check.name, &figure.variable, &figure.unit];
                    found.entry(key).or_default().push((&summary.cell, figure));
                }
            }
        }
        found.retain(|_, rows| rows.len() > 1);
        let found = found.into_iter();
        found
            .map(|([environment, check, variable, unit], rows)| Self {
                environment,
                check,
                variable,
                unit,
                rows,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64, reference: Option<f64>, limits: [Option<f64>; 2]) -> Measured {
        let [lower, upper] = limits;
        let (variable, unit) = ("speed".to_owned(), "GB/s".to_owned());
        Measured { variable, value, unit, reference, lower, upper }
    }

    #[test]
    fn a_value_is_shown_against_its_limits() {
        let inside = row(String::new(), &measured(42.0, Some(40.0), [Some(-0.1), None]), 40.0);
        assert_eq!((inside.value, inside.mark, inside.is_bad), (Some(1.05), Some(1.0), false));
        assert_eq!(inside.band, Some((0.9, f64::INFINITY)));
        let outside = row(String::new(), &measured(30.0, Some(40.0), [Some(-0.1), Some(0.1)]), 1.0);
        assert_eq!((outside.band, outside.is_bad), (Some((36.0, 44.0)), true));
        let alone = row(String::new(), &measured(30.0, None, [None, None]), 1.0);
        assert_eq!((alone.band, alone.mark), (None, None));
    }

    #[test]
    fn limits_of_a_negative_reference_are_around_it() {
        let figure = measured(-41.0, Some(-40.0), [Some(-0.1), Some(0.1)]);
        assert_eq!(limits(&figure), (Some(-44.0), Some(-36.0)));
        assert!(!is_outside(&figure));
    }
}
