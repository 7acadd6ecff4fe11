// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Figures of checks as small plots, each with the numbers beside it. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cabane_evidence::Measured;
use cabane_label::escape_html;
use cabane_web_page::{is_outside, limits, line, number, permitted, with_unit};

use crate::cell::CellName;
use crate::stage::StageResult;
use crate::summary::CellSummary;

/// The most plots of a page. Others are numbers only.
pub(super) const MOST_PLOTS: usize = 1000;
/// The most characters of the name of a check or a figure.
const LONGEST_NAME: usize = 80;

const WIDTH: f64 = 160.0;
const MARGIN: f64 = 8.0;

/// The range of numbers that a plot shows.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Chooses a range with some space beside all numbers.
    fn of<'f>(figures: impl Iterator<Item = &'f Measured>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for figure in figures {
            let (lower, upper) = limits(figure);
            let numbers = [Some(figure.value), figure.reference, lower, upper];
            for number in numbers.into_iter().flatten().filter(|number| number.is_finite()) {
                low = low.min(number);
                high = high.max(number);
            }
        }
        // Halves, since the difference of two numbers may be none.
        let space = match high / 2.0 - low / 2.0 {
            difference if difference > 0.0 => difference / 4.0,
            _ if high == 0.0 => 1.0,
            _ => high.abs() / 10.0,
        };
        Self { low: (low - space).max(f64::MIN), high: (high + space).min(f64::MAX) }
    }

    fn place(self, value: f64) -> f64 {
        let part = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 };
        MARGIN + part * (WIDTH - 2.0 * MARGIN)
    }
}

/// Draws the permitted range, the reference and the value.
fn plot(page: &mut String, scale: Scale, figure: &Measured) {
    let value = scale.place(figure.value);
    let judgment = match (figure.reference, is_outside(figure)) {
        (None, _) => String::new(),
        (Some(reference), is_outside) => format!(
            "; reference {}; permitted: {}; {}",
            number(reference),
            permitted(figure),
            if is_outside { "outside" } else { "inside" }
        ),
    };
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 160 20\" role=\"img\" aria-label=\"{}{judgment}\"><path class=\"axis\" d=\"M0 10H160\"/>",
        with_unit(figure.value, &figure.unit)
    );
    if let (lower, upper) = limits(figure)
        && (lower.is_some() || upper.is_some())
    {
        let from = lower.map_or(0.0, |lower| scale.place(lower));
        let to = upper.map_or(WIDTH, |upper| scale.place(upper));
        let width = (to - from).max(0.0);
        let _ = write!(
            page,
            "<rect class=\"band\" x=\"{from:.1}\" y=\"3\" width=\"{width:.1}\" height=\"14\"/>"
        );
    }
    if let Some(reference) = figure.reference {
        let _ = write!(page, "<path class=\"ref\" d=\"M{:.1} 0V20\"/>", scale.place(reference));
    }
    // The shape differs too, since not everybody sees the color.
    if is_outside(figure) {
        let _ = write!(page, "<path class=\"out\" d=\"M{:.1} 10l7-7 7 7-7 7z\"/>", value - 7.0);
    } else {
        let _ = write!(page, "<circle class=\"in\" cx=\"{value:.1}\" cy=\"10\" r=\"5\"/>");
    }
    page.push_str("</svg>");
}

/// The plots that may still be drawn.
pub(super) struct Plots(pub(super) usize);

impl Plots {
    fn take(&mut self) -> bool {
        let has_one = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        has_one
    }

    fn add_row(&mut self, page: &mut String, scale: Scale, title: &str, figure: &Measured) {
        let outside = if is_outside(figure) { " <b>outside</b>" } else { "" };
        let unit = &figure.unit;
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{title}</th><td class=\"w\">{}{outside}</td><td class=\"plot\">",
            with_unit(figure.value, unit)
        );
        if self.take() {
            plot(page, scale, figure);
        } else {
            page.push_str("not drawn");
        }
        let permitted = permitted(figure);
        let _ = write!(page, "</td><td class=\"w\">{permitted}");
        if let Some(reference) = figure.reference {
            let _ = write!(page, "; reference {}", number(reference));
        }
        page.push_str("</td></tr>\n");
    }

    /// Writes the figures of one cell.
    pub(super) fn add_cell(&mut self, page: &mut String, stage: &StageResult) {
        let checks = || stage.report.iter().flat_map(|report| &report.checks);
        if checks().all(|check| check.figures.is_empty()) {
            return;
        }
        page.push_str("<h4>Figures</h4>\n<table>\n");
        begin_rows(page, "figure");
        for check in checks() {
            for figure in &check.figures {
                let check = line(&check.name, LONGEST_NAME);
                let title = format!("{check}: {}", line(&figure.variable, LONGEST_NAME));
                self.add_row(page, Scale::of(std::iter::once(figure)), &title, figure);
            }
        }
        page.push_str("</table>\n");
    }

    /// Writes one plot for each figure that several cells of an environment have.
    pub(super) fn add_comparisons(&mut self, page: &mut String, all: &[Comparison<'_>]) {
        page.push_str(
            "<h2 id=\"figures\">Compare the systems</h2>\n<p>The shaded range is permitted, the \
             dashed line is the reference. A disk is inside the range, a diamond outside.</p>\n",
        );
        for one in all {
            let scale = Scale::of(one.rows.iter().map(|(_, figure)| *figure));
            let _ = writeln!(
                page,
                "<table><caption>{}: {}, {}. All plots go from {} to {}.</caption>",
                escape_html(one.environment),
                line(one.check, LONGEST_NAME),
                line(one.variable, LONGEST_NAME),
                number(scale.low),
                with_unit(scale.high, one.unit)
            );
            begin_rows(page, "cell");
            for (cell, figure) in &one.rows {
                let title = format!("{}@{}%{}", cell.version, cell.system, cell.uarch);
                // Narrow screens break it there.
                let title = escape_html(&title).replace('@', "@<wbr>").replace('%', "<wbr>%");
                self.add_row(page, scale, &title, figure);
            }
            page.push_str("</table>\n");
        }
    }
}

fn begin_rows(page: &mut String, first: &str) {
    let _ = write!(page, "<tr><th scope=\"col\">{first}</th>");
    for column in ["value", "plot", "permitted"] {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr>\n");
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

    fn drawn(figure: &Measured) -> String {
        let mut page = String::new();
        plot(&mut page, Scale::of(std::iter::once(figure)), figure);
        page
    }

    #[test]
    fn a_value_is_shown_against_its_limits() {
        let inside = drawn(&measured(42.5, Some(40.0), [Some(-0.1), None]));
        let label = "aria-label=\"42.5 GB/s; reference 40; permitted: at least 36 GB/s; inside\"";
        assert!(inside.contains(label) && inside.contains("<circle"), "{inside}");
        let outside = drawn(&measured(30.0, Some(40.0), [Some(-0.1), Some(0.1)]));
        assert!(outside.contains("permitted: 36 to 44 GB/s; outside"), "{outside}");
        assert!(outside.contains("class=\"out\"") && outside.contains("class=\"band\""));
        let alone = drawn(&measured(30.0, None, [None, None]));
        assert!(!alone.contains("band") && !alone.contains("class=\"ref\""), "{alone}");
    }

    #[test]
    fn limits_of_a_negative_reference_are_around_it() {
        let figure = measured(-41.0, Some(-40.0), [Some(-0.1), Some(0.1)]);
        assert_eq!(limits(&figure), (Some(-44.0), Some(-36.0)));
        assert!(!is_outside(&figure));
    }

    #[test]
    fn any_number_can_be_drawn() {
        for value in [0.0, -1e308, 1e308, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN] {
            for reference in [None, Some(0.0), Some(f64::MAX), Some(-f64::MAX)] {
                let page = drawn(&measured(value, reference, [Some(-1e300), Some(1e300)]));
                let drawing = page.split_once("\"><path").unwrap().1;
                assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{page}");
            }
        }
    }
}
