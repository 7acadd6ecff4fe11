// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A summary as one page of HTML. Pure.
//!
//! The page needs nothing from elsewhere and runs no script, so it can be put on any server or sent by mail.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_web_page::plot::{Axis, Column, ColumnPlot, PlotRow, RowPlot, Rows};
use cabane_web_page::{END, begin, number};
use jiff::Timestamp;

use crate::summary::Summary;

/// A table has so many rows at most: a browser has to show them.
const ROWS: usize = 500;
/// And a plot so many bars.
const BARS: usize = 40;

/// Writes the page.
pub fn page(title: &str, summary: &Summary) -> String {
    let mut page = begin(title);
    let _ = writeln!(page, "<main>\n<h1>{}</h1>", escape_html(title));
    let counts = summary.counts;
    let _ = writeln!(
        page,
        "<p>{} steps, {} ends of steps, and {} failures of further nodes, from {} to {}.",
        counts.steps,
        counts.ends,
        counts.node_failures,
        date(summary.first),
        date(summary.last)
    );
    if counts.broken > 0 {
        let _ =
            writeln!(page, "<span class=\"bad\">{} lines are no records.</span>", counts.broken);
    }
    page.push_str("</p>\n");
    add_days(&mut page, summary);
    add_failures(&mut page, summary);
    add_nodes(&mut page, summary);
    add_uses(&mut page, summary);
    add_unused(&mut page, summary);
    page.push_str("</main>\n");
    page.push_str(END);
    page
}

fn date(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

/// A table; a column whose name begins with `>` has numbers.
struct Table<'a> {
    page: &'a mut String,
    columns: &'a [&'a str],
    rows: usize,
}

impl<'a> Table<'a> {
    fn new(page: &'a mut String, caption: &str, columns: &'a [&'a str]) -> Self {
        let caption = escape_html(caption);
        let _ = write!(
            page,
            "<div class=\"s\" role=\"group\" aria-label=\"{caption}\" tabindex=\"0\">\n\
             <table><caption>{caption}</caption>\n<tr>"
        );
        for column in columns {
            let class = class_of(column);
            let name = column.trim_start_matches('>');
            let _ = write!(page, "<th scope=\"col\"{class}>{name}</th>");
        }
        page.push_str("</tr>\n");
        Self { page, columns, rows: 0 }
    }

    fn push(&mut self, is_bad: bool, cells: &[&dyn std::fmt::Display]) {
        self.rows += 1;
        if self.rows > ROWS {
            return;
        }
        self.page.push_str(if is_bad { "<tr class=\"bad\">" } else { "<tr>" });
        for (cell, column) in cells.iter().zip(self.columns) {
            let class = class_of(column);
            let _ = write!(self.page, "<td{class}>{}</td>", escape_html(&cell.to_string()));
        }
        self.page.push_str("</tr>\n");
    }

    fn end(self) {
        self.page.push_str("</table>\n</div>\n");
        if let Some(more) = self.rows.checked_sub(ROWS).filter(|more| *more > 0) {
            let _ = writeln!(self.page, "<p>And {more} more, which <code>--json</code> has.</p>");
        }
    }
}

fn class_of(column: &str) -> &'static str {
    if column.starts_with('>') { " class=\"r\"" } else { "" }
}

fn add_days(page: &mut String, summary: &Summary) {
    let last = summary.days.len().saturating_sub(BARS);
    let days = summary.days.get(last..).unwrap_or_default();
    let column = |day: &crate::summary::Day| Column {
        name: day.date.to_string(),
        parts: [day.steps.saturating_sub(day.unmounted), day.unmounted],
    };
    let plot = ColumnPlot {
        title: "Steps of each day",
        description: "The lower part of a column is steps with their images, the upper part those without.",
        span: "day",
        parts: ["with their images", "without their images"],
        columns: days.iter().map(column).collect(),
    };
    page.push_str(&plot.html());
}

fn add_failures(page: &mut String, summary: &Summary) {
    page.push_str("<h2>Failures</h2>\n");
    if summary.failures.is_empty() {
        page.push_str("<p>All images were mounted.</p>\n");
        return;
    }
    let columns = ["reason", "nodes", ">number", ">steps", "users", "last"];
    let mut table = Table::new(page, "Why images were not mounted", &columns);
    for one in &summary.failures {
        let users = one.users.join(", ");
        let last = date(one.last);
        table.push(false, &[&one.reason, &one.nodes, &one.node_count, &one.steps, &users, &last]);
    }
    table.end();
}

fn add_nodes(page: &mut String, summary: &Summary) {
    if summary.nodes.is_empty() {
        return;
    }
    page.push_str("<h2>Start times of nodes</h2>\n");
    let nodes = summary.nodes.iter().take(BARS).map(|node| PlotRow {
        name: if node.is_slow { format!("{}, slow", node.node) } else { node.node.clone() },
        value: Some(node.times.median_ms),
        interval: Some((node.times.median_ms, node.times.p95_ms)),
        is_bad: node.is_slow,
        ..PlotRow::default()
    });
    let plot = RowPlot {
        title: "Opening and mounting on each node",
        description: "The point is the median, and the line ends at 95 %. A diamond is a slow node.",
        axis: Axis { name: "time, ms".to_owned(), format: number },
        kind: Rows::Points { value: "median", interval: "median to 95 %", band: "", mark: "" },
        rows: nodes.collect(),
    };
    page.push_str(&plot.html());
    let columns = ["node", ">starts", ">median, ms", ">95 %, ms", ">longest, ms", "note"];
    let caption = "The slowest nodes; only the first node of a step is measured";
    let mut table = Table::new(page, caption, &columns);
    for node in &summary.nodes {
        let times = node.times;
        let slow = if node.is_slow { "slow" } else { "" };
        let (median, p95) = (&times.median_ms, &times.p95_ms);
        table.push(node.is_slow, &[&node.node, &times.count, median, p95, &times.max_ms, &slow]);
    }
    table.end();
}

fn add_uses(page: &mut String, summary: &Summary) {
    page.push_str("<h2>Images</h2>\n");
    let images = summary.images.iter().take(BARS).map(|image| PlotRow {
        name: image.label.as_ref().unwrap_or(&image.image).clone(),
        value: Some(height(image.steps)),
        ..PlotRow::default()
    });
    let plot = RowPlot {
        title: "Steps of each image",
        description: "The most used images.",
        axis: Axis { name: "steps".to_owned(), format: number },
        kind: Rows::Bars { value: "steps" },
        rows: images.collect(),
    };
    page.push_str(&plot.html());
    let columns =
        ["label", "image", ">users", ">steps", ">not mounted", ">exit code not 0", "last"];
    let mut table = Table::new(page, "What is used", &columns);
    for one in &summary.images {
        let label = one.label.as_deref().unwrap_or("-");
        let last = date(one.last);
        let (steps, unmounted) = (&one.steps, &one.unmounted);
        table.push(false, &[&label, &one.image, &one.users, steps, unmounted, &one.failed, &last]);
    }
    table.end();
    let columns = ["user", "label", "image", ">steps", ">not mounted", ">exit code not 0", "last"];
    let mut table = Table::new(page, "Who uses it", &columns);
    for one in &summary.uses {
        let label = one.label.as_deref().unwrap_or("-");
        let last = date(one.last);
        let (steps, unmounted) = (&one.steps, &one.unmounted);
        table.push(false, &[&one.user, &label, &one.image, steps, unmounted, &one.failed, &last]);
    }
    table.end();
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
fn height(steps: u64) -> f64 {
    steps as f64
}

fn add_unused(page: &mut String, summary: &Summary) {
    let Some(unused) = &summary.unused else {
        return;
    };
    page.push_str("<h2>Images that no step uses</h2>\n");
    let mut table = Table::new(
        page,
        "The largest first",
        &["label", "digest", ">MiB", "in the repository since"],
    );
    for image in unused {
        let mebibytes = image.size.div_ceil(1 << 20);
        let since = date(Some(image.date));
        table.push(false, &[&image.label, &image.digest, &mebibytes, &since]);
    }
    table.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;
    use crate::read::read_lines;

    fn page_of(lines: &str) -> String {
        let mut tally = Tally::default();
        read_lines(&mut lines.as_bytes(), "f", &mut tally).unwrap();
        page("a & b", &Summary::new(&tally, None).unwrap())
    }

    fn step(node: &str, more: &str) -> String {
        format!(
            "{{\"record\":\"cabane-step\",\"version\":1,\"time\":\"2026-11-22T04:18:33Z\",\
             \"node\":\"{node}\",\"user\":\"<script>alert(1)</script>\",\"uid\":1,{more},\
             \"images\":[{{\"path\":\"/a\\\"><img src=x onerror=alert(2)>\",\"mount_point\":\"/u\"}}]}}\n"
        )
    }

    #[test]
    fn what_records_say_cannot_become_part_of_the_page() {
        let reason = "\"mounted\":false,\"reason\":\"</td><script>alert(3)</script>\\u001b[2J\"";
        let page = page_of(&step("<svg onload=alert(4)>", reason));
        let is_safe =
            ["<script", "<img", "<svg onload", "\u{1b}"].iter().all(|bad| !page.contains(bad));
        assert!(is_safe && page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("<h1>a &amp; b</h1>"));
    }

    #[test]
    fn a_page_has_plots_and_says_in_words_what_is_slow() {
        let start = |node: &str, mount: u32| {
            let more = format!("\"mounted\":true,\"times_ms\":{{\"open\":0,\"mount\":{mount}}}");
            step(node, &more).repeat(5)
        };
        let page = page_of(&[start("n1", 3), start("n2", 90), start("n3", 3)].concat());
        assert_eq!(page.matches("<svg ").count(), 3, "{page}");
        assert!(page.contains("n2, slow: 90") && !page.contains("NaN"), "{page}");
    }

    #[test]
    fn nothing_makes_a_page_too() {
        let page = page_of("");
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
    }
}
