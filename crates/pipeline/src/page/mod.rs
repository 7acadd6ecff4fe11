// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The results of a run as one page of HTML.
//!
//! The page needs nothing from elsewhere and runs no script, so that it can be put on any server or
//! sent by mail. The same results give the same bytes. Everything in it was written by others, and is
//! escaped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use cabane_evidence::Outcome;
use cabane_label::escape_html;
use cabane_web_page::{END, begin, chip, class, counted, date, line, words};

use crate::cell::{Cell, CellName};
use crate::directory::RunDirectory;
use crate::pipeline::Pipeline;
use crate::stage::{Stage, StageResult};
use crate::summary::CellSummary;

mod cell;
mod figures;

use figures::{Comparison, MOST_PLOTS, Plots};

/// The most of a log that is read, in bytes.
const MOST_OF_LOG: u64 = 64 << 10;
/// Logs are shortened where the page would have more bytes than this.
const MOST_OF_PAGE: usize = 1_900_000;
/// All logs together have this much space in any case, in bytes.
const LEAST_OF_LOGS: usize = 200_000;
/// The bytes of the texts around a log, at most.
const BESIDE_LOG: usize = 300;
/// More cells than these are closed at first, also if they did not pass.
const MOST_OPEN: usize = 10;
/// The most characters of a message in the summary.
const LONGEST_MESSAGE: usize = 300;

/// The results of a run, as a page shows them.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    cells: Vec<PageCell>,
    left_out: Vec<String>,
}

#[derive(Clone, Debug)]
struct PageCell {
    summary: CellSummary,
    log: Option<EndOfLog>,
}

/// The end of the log of the stage that did not pass.
#[derive(Clone, Debug)]
struct EndOfLog {
    stage: Stage,
    text: String,
    is_cut: bool,
}

impl Page {
    /// Reads what a run has of some cells of a pipeline.
    #[must_use]
    pub fn of(pipeline: &Pipeline, run: &RunDirectory, cells: &[&Cell]) -> Self {
        let directory = pipeline.directory.file_name().unwrap_or_default().to_string_lossy();
        let cells = cells.iter().map(|cell| {
            let summary = CellSummary::of(run, cell);
            let log = of_failure(&summary).and_then(|stage| EndOfLog::of(run, cell, stage.stage));
            PageCell { summary, log }
        });
        Self {
            title: format!("Pipeline report: {directory}"),
            cells: cells.collect(),
            left_out: pipeline.mistakes.iter().map(|mistake| mistake.message.clone()).collect(),
        }
    }

    /// Returns the number of cells with an outcome; `None` is that of cells without a result.
    #[must_use]
    pub fn count(&self, outcome: Option<Outcome>) -> usize {
        self.cells.iter().filter(|cell| cell.summary.outcome == outcome).count()
    }

    /// Returns how many cells there are, and how many have each outcome, in words.
    #[must_use]
    pub fn counts(&self) -> String {
        let outcomes = Outcome::ALL.map(Some).into_iter().chain([None]);
        let counts = outcomes.map(|outcome| (self.count(outcome), words(outcome)));
        let counts: Vec<String> = counts
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| match words {
                "no result" => format!("{count} without a result"),
                words => format!("{count} {words}"),
            })
            .collect();
        format!("{}: {}", counted(self.cells.len(), "cell"), counts.join(", "))
    }

    /// Writes the page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = begin(&self.title);
        let _ = writeln!(page, "<header>\n<h1>{}</h1>", escape_html(&self.title));
        let compared = Comparison::all(self.cells.iter().map(|cell| &cell.summary));
        self.add_summary(&mut page);
        page.push_str("</header>\n");
        self.add_contents(&mut page, !compared.is_empty());
        page.push_str("<main>\n");
        self.add_matrix(&mut page);
        self.add_failures(&mut page);
        let mut plots = Plots(MOST_PLOTS);
        if !compared.is_empty() {
            plots.add_comparisons(&mut page, &compared);
        }
        self.add_cells(&mut page, &mut plots);
        page.push_str("</main>\n");
        page.push_str(END);
        page
    }

    fn add_summary(&self, page: &mut String) {
        let names = || self.cells.iter().map(|cell| &cell.summary.cell);
        let environments: BTreeSet<_> = names().map(|cell| (&cell.name, &cell.version)).collect();
        let systems: BTreeSet<_> = names().map(|cell| &cell.system).collect();
        let _ = writeln!(
            page,
            "<p>{} on {}. {}.</p>",
            counted(environments.len(), "environment"),
            counted(systems.len(), "system"),
            self.counts()
        );
        let stages = || self.cells.iter().flat_map(|cell| &cell.summary.stages);
        let first = stages().map(|stage| stage.started).min();
        let last = stages().map(|stage| stage.finished).max();
        if let (Some(first), Some(last)) = (first, last) {
            let _ = writeln!(
                page,
                "<p class=\"faint\">The stages ran between {} and {}.</p>",
                date(first),
                date(last)
            );
        }
        if !self.left_out.is_empty() {
            page.push_str(
                "<p>The pipeline describes more cells, which cannot be built:</p>\n<ul>\n",
            );
            for message in &self.left_out {
                let _ = writeln!(page, "<li>{}</li>", line(message, LONGEST_MESSAGE));
            }
            page.push_str("</ul>\n");
        }
    }

    fn add_contents(&self, page: &mut String, has_figures: bool) {
        page.push_str("<nav aria-label=\"Sections\"><ul>");
        let sections = [
            ("matrix", "Outcomes", true),
            ("failures", "What did not pass", self.has_failures()),
            ("figures", "Compare the systems", has_figures),
            ("cells", "Cells", true),
        ];
        for (id, name, _) in sections.into_iter().filter(|(.., is_there)| *is_there) {
            let _ = write!(page, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        page.push_str("</ul></nav>\n");
    }

    /// Writes a row for each environment, and a column for each kind of nodes.
    fn add_matrix(&self, page: &mut String) {
        let column = |cell: &CellName| format!("{}%{}", cell.system, cell.uarch);
        let row = |cell: &CellName| format!("{}/{}", cell.name, cell.version);
        let columns: BTreeSet<String> =
            self.cells.iter().map(|cell| column(&cell.summary.cell)).collect();
        let mut rows: BTreeMap<String, BTreeMap<String, &CellSummary>> = BTreeMap::new();
        for PageCell { summary, .. } in &self.cells {
            let of_row = rows.entry(row(&summary.cell)).or_default();
            of_row.insert(column(&summary.cell), summary);
        }
        page.push_str(
            "<h2 id=\"matrix\">Outcomes</h2>\n\
             <div class=\"s\" role=\"group\" aria-label=\"Outcome of each cell\" tabindex=\"0\">\n\
             <table>\n<tr><th scope=\"col\">environment</th>",
        );
        for column in &columns {
            let _ = write!(page, "<th scope=\"col\">{}</th>", escape_html(column));
        }
        page.push_str("</tr>\n");
        for (name, of_row) in &rows {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape_html(name));
            for column in &columns {
                match of_row.get(column) {
                    Some(summary) => add_to_matrix(page, summary),
                    None => page.push_str(
                        "<td><span aria-hidden=\"true\">—</span>\
                         <span class=\"v\">not in the pipeline</span></td>",
                    ),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n</div>\n");
    }

    fn has_failures(&self) -> bool {
        self.cells.iter().any(|cell| of_failure(&cell.summary).is_some())
    }

    /// Lists the cells that did not pass. Those with the same message are one item.
    fn add_failures(&self, page: &mut String) {
        if !self.has_failures() {
            return;
        }
        let mut groups: Vec<(&StageResult, &str, Vec<&CellName>)> = Vec::new();
        for PageCell { summary, .. } in &self.cells {
            let Some(result) = of_failure(summary) else { continue };
            let message = result.message.as_deref().unwrap_or_default();
            let message = message.lines().next().unwrap_or_default();
            let same = groups.iter_mut().find(|(other, text, _)| {
                (other.stage, other.outcome, *text) == (result.stage, result.outcome, message)
            });
            match same {
                Some((_, _, cells)) => cells.push(&summary.cell),
                None => groups.push((result, message, vec![&summary.cell])),
            }
        }
        page.push_str("<h2 id=\"failures\">What did not pass</h2>\n<ul>\n");
        for (result, message, cells) in groups {
            let links: Vec<String> = cells.iter().map(|cell| link(cell)).collect();
            let _ = writeln!(
                page,
                "<li>{} {}: {}<br>{}</li>",
                chip(Some(result.outcome)),
                result.stage,
                line(message, LONGEST_MESSAGE),
                links.join(", ")
            );
        }
        page.push_str("</ul>\n");
    }

    fn add_cells(&self, page: &mut String, plots: &mut Plots) {
        page.push_str("<h2 id=\"cells\">Cells</h2>\n");
        let failures = self.cells.iter().filter(|cell| of_failure(&cell.summary).is_some());
        let are_few = failures.count() <= MOST_OPEN;
        let lengths = self.cells.iter().filter_map(|cell| Some(cell.log.as_ref()?.text.len()));
        let mut size = page.len();
        let sections: Vec<String> = self
            .cells
            .iter()
            .map(|cell| {
                let is_open = are_few && of_failure(&cell.summary).is_some();
                let mut section = String::new();
                cell::add(&mut section, cell, is_open, plots);
                size += section.len() + BESIDE_LOG;
                section
            })
            .collect();
        let space = MOST_OF_PAGE.saturating_sub(size).max(LEAST_OF_LOGS);
        let bytes = fair_share(lengths.collect(), space);
        for (cell, section) in self.cells.iter().zip(&sections) {
            page.push_str(section);
            cell::end(page, cell, bytes);
        }
    }
}

impl EndOfLog {
    fn of(run: &RunDirectory, cell: &Cell, stage: Stage) -> Option<Self> {
        let text = run.end_of_log(&cell.name, stage, MOST_OF_LOG)?;
        let length = fs::metadata(run.log(&cell.name, stage)).map_or(0, |file| file.len());
        Some(Self { stage, text, is_cut: length > MOST_OF_LOG })
    }
}

/// Returns the stage that failed or could not run.
fn of_failure(summary: &CellSummary) -> Option<&StageResult> {
    summary.culprit().filter(|stage| matches!(stage.outcome, Outcome::Failed | Outcome::Error))
}

/// Returns how many bytes each text may have, so that all have the given number together. Short ones
/// leave more for long ones.
fn fair_share(mut lengths: Vec<usize>, all: usize) -> usize {
    lengths.sort_unstable();
    let mut left = all;
    for (number, length) in lengths.iter().enumerate() {
        // Escaped, it is longer.
        let length = length.saturating_mul(5) / 4;
        let share = left / (lengths.len() - number);
        if length > share {
            return share;
        }
        left -= length;
    }
    all
}

/// Returns the name by which links find a cell. `%` would need an escape there.
fn anchor(cell: &CellName) -> String {
    escape_html(&cell.to_string().replace('%', ":"))
}

fn link(cell: &CellName) -> String {
    format!("<a href=\"#{}\">{}</a>", anchor(cell), escape_html(&cell.to_string()))
}

fn add_to_matrix(page: &mut String, summary: &CellSummary) {
    let stage = of_failure(summary).map(|result| format!(" {}", result.stage)).unwrap_or_default();
    let _ = write!(
        page,
        "<td><a class=\"{}\" href=\"#{}\">{}<span class=\"v\"> {}</span></a>{stage}</td>",
        class(summary.outcome),
        anchor(&summary.cell),
        words(summary.outcome),
        escape_html(&summary.cell.to_string())
    );
}

#[cfg(test)]
mod tests;
