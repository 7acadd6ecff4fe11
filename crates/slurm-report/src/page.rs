// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A summary as one page of HTML. Pure.
//!
//! The plots are drawn here as SVG. The page needs nothing from elsewhere and runs no script, so
//! it can be put on any server or sent by mail.

use std::fmt::Write as _;

use cabane_label::escape_html;
use jiff::Timestamp;

use crate::summary::{NodeTimes, Summary};

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#222;--faint:#595959;--line:#ddd;--bar:#1f6fb2;--bad:#b3261e;--back:#fff}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--faint:#aaa;--line:#444;--bar:#6db3f2;--bad:#ff8a80;--back:#181818}}
body{font:15px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:var(--text);background:var(--back)}
table{border-collapse:collapse;width:100%;margin:1em 0}
caption{text-align:left;color:var(--faint);padding-bottom:.3em}
th,td{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bad{color:var(--bad);font-weight:600}
svg{width:100%;height:auto}svg text{font:11px sans-serif;fill:var(--text)}
.a{fill:var(--bar)}.b{fill:var(--bad)}.l{stroke:var(--text)}
code{font-size:.9em}";

/// A table has so many rows at most: a browser has to show them.
const ROWS: usize = 500;
/// And a plot so many bars.
const BARS: usize = 40;
const WIDTH: f64 = 900.0;
const NAMES: f64 = 210.0;
const ROW: f64 = 18.0;

/// Writes the page.
pub fn page(title: &str, summary: &Summary) -> String {
    let title = escape_html(title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
    );
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
    page.push_str("</main></body></html>\n");
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
        let _ = write!(page, "<table><caption>{}</caption>\n<tr>", escape_html(caption));
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
        self.page.push_str("</table>\n");
        if let Some(more) = self.rows.checked_sub(ROWS).filter(|more| *more > 0) {
            let _ = writeln!(self.page, "<p>And {more} more, which <code>--json</code> has.</p>");
        }
    }
}

fn class_of(column: &str) -> &'static str {
    if column.starts_with('>') { " class=\"n\"" } else { "" }
}

fn begin_plot(page: &mut String, title: &str, rows: usize) {
    let height = rows_of(rows) + 12.0;
    let title = escape_html(title);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>"
    );
}

fn rows_of(rows: usize) -> f64 {
    f64::from(u32::try_from(rows).unwrap_or(u32::MAX)) * ROW
}

/// Draws a bar with a name before it and a text behind it. The second part of it is bad.
fn bar(page: &mut String, row: usize, name: &str, [good, bad]: [f64; 2], text: &str) {
    let space = WIDTH - NAMES - 120.0;
    let (top, good, bad) = (rows_of(row), good * space, bad * space);
    let (middle, bad_start, end) = (top + 12.0, NAMES + good, NAMES + good + bad + 6.0);
    let _ = writeln!(
        page,
        "<text x=\"0\" y=\"{middle}\">{}</text>\
         <rect class=\"a\" x=\"{NAMES}\" y=\"{top}\" width=\"{good:.1}\" height=\"14\"/>\
         <rect class=\"b\" x=\"{bad_start:.1}\" y=\"{top}\" width=\"{bad:.1}\" height=\"14\"/>\
         <text x=\"{end:.1}\" y=\"{middle}\">{}</text>",
        escape_html(&shortened(name)),
        escape_html(text)
    );
}

fn shortened(name: &str) -> String {
    const MOST: usize = 32;
    let count = name.chars().count();
    if count <= MOST {
        return name.to_owned();
    }
    let kept: String = name.chars().take(MOST - 1).collect();
    kept + "…"
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
fn part(number: u64, most: u64) -> f64 {
    number as f64 / most.max(1) as f64
}

fn add_days(page: &mut String, summary: &Summary) {
    let last = summary.days.len().saturating_sub(BARS);
    let days = summary.days.get(last..).unwrap_or_default();
    let most = days.iter().map(|day| day.steps).max().unwrap_or_default();
    if days.is_empty() {
        return;
    }
    page.push_str("<h2>Steps of each day</h2>\n");
    begin_plot(
        page,
        "Steps of each day; those without their images are the second part of a bar",
        days.len(),
    );
    for (row, day) in days.iter().enumerate() {
        let (steps, without) = (day.steps, day.unmounted);
        let text = match without {
            0 => steps.to_string(),
            without => format!("{steps}, {without} without images"),
        };
        let parts = [part(steps.saturating_sub(without), most), part(without, most)];
        bar(page, row, &day.date.to_string(), parts, &text);
    }
    page.push_str("</svg>\n");
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
    let nodes = summary.nodes.get(..BARS).unwrap_or(&summary.nodes);
    let longest = nodes.iter().map(|node| node.times.p95_ms).fold(0.0, f64::max);
    let title = "Opening and mounting, in milliseconds: the bar ends at the median, the line at 95 %; \
                 slow nodes are marked";
    let _ = writeln!(page, "<p>{title}.</p>");
    begin_plot(page, title, nodes.len());
    for (row, node) in nodes.iter().enumerate() {
        add_node(page, row, node, longest.max(f64::MIN_POSITIVE));
    }
    page.push_str("</svg>\n");
    let columns = ["node", ">starts", ">median, ms", ">95 %, ms", ">longest, ms", ""];
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

fn add_node(page: &mut String, row: usize, node: &NodeTimes, longest: f64) {
    let (median, p95) = (node.times.median_ms / longest, node.times.p95_ms / longest);
    let parts = if node.is_slow { [0.0, median] } else { [median, 0.0] };
    let slow = if node.is_slow { ", slow" } else { "" };
    let space = WIDTH - NAMES - 120.0;
    let (from, to, middle) = (NAMES + median * space, NAMES + p95 * space, rows_of(row) + 7.0);
    // The text is behind the line.
    bar(page, row, &node.node, parts, "");
    let _ = writeln!(
        page,
        "<line class=\"l\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>\
         <text x=\"{:.1}\" y=\"{}\">{}{slow}</text>",
        to + 6.0,
        middle + 5.0,
        node.times.median_ms
    );
}

fn add_uses(page: &mut String, summary: &Summary) {
    page.push_str("<h2>Images</h2>\n");
    let images = summary.images.get(..BARS).unwrap_or(&summary.images);
    let most = images.first().map_or(0, |image| image.steps);
    begin_plot(page, "Steps of each image", images.len());
    for (row, image) in images.iter().enumerate() {
        let name = image.label.as_ref().unwrap_or(&image.image);
        bar(page, row, name, [part(image.steps, most), 0.0], &image.steps.to_string());
    }
    page.push_str("</svg>\n");
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
        assert!(page.contains("90, slow</text>") && !page.contains("NaN"), "{page}");
    }

    #[test]
    fn nothing_makes_a_page_too() {
        let page = page_of("");
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
    }
}
