// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Results as one page of HTML: comparisons with plots, tests, and other figures. Pure.
//!
//! The page needs nothing from elsewhere and runs no script. Everything in it was written by others, and is
//! escaped. The same results give the same page.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_web_page::plot::{Axis, PlotRow, RowPlot, Rows};
use cabane_web_page::{END, begin, chip, counted, date, line, lines, number, with_unit};

use super::row::{Better, Row, RowAnswer, RowDescription, rows};
use super::{Results, test_page};

/// The most characters of a text, and of a name.
pub(super) const LONGEST_TEXT: usize = 1500;
pub(super) const LONGEST_NAME: usize = 120;
/// The most characters of the name of a row in a plot.
const LONGEST_ROW: usize = 80;

const HOW_TO_READ: &str = "A ratio compares ours with the other way: below 1, ours takes less. Each round measures the other way twice, and \
     the second time is the control. A difference counts only where the quartiles of the ratio and the range of \
     the control have nothing in common; that range always reaches 1.";
const LEGEND: &str = "The point is the median ratio, with a line between the quartiles. The shaded band is the control, and the \
     vertical line is the claim. A diamond is worse or different.";

/// Writes the results of some images; `descriptions` are those of the suites.
#[must_use]
pub fn results_page(title: &str, all: &[Results], descriptions: &[RowDescription]) -> String {
    let mut page = begin(title);
    let _ = writeln!(page, "<header>\n<h1>{}</h1>\n</header>\n<main>", escape_html(title));
    for results in all {
        add_summary(&mut page, results);
        let rows = rows(results, descriptions);
        add_rows(&mut page, &rows);
        test_page::add(&mut page, results, &rows);
    }
    page.push_str("</main>\n");
    page.push_str(END);
    page
}

fn add_summary(page: &mut String, results: &Results) {
    let _ = writeln!(
        page,
        "<h2>{} {}</h2>\n<p>Image <code>{}</code>",
        line(&results.image, 200),
        chip(Some(results.outcome())),
        results.digest
    );
    if let (Some(started), Some(finished)) = (results.started, results.finished) {
        let (started, finished) = (date(started), date(finished));
        let _ = writeln!(page, "<br>The tests ran between {started} and {finished}.");
    }
    if !results.statements.is_empty() {
        let count = counted(results.statements.len(), "signed statement");
        let names: Vec<String> =
            results.statements.iter().map(|one| one.id().to_string()).collect();
        let names = line(&names.join(", "), LONGEST_TEXT);
        let _ = writeln!(page, "<br>From {count}, the newest result of each test: {names}.");
    }
    page.push_str("</p>\n");
    for host in &results.hosts {
        let kernel = host.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
        let glibc = host.glibc.as_ref().map(|glibc| format!("glibc {glibc}"));
        let driver = host.nvidia_driver.as_ref().map(|driver| format!("NVIDIA driver {driver}"));
        let system = host.system.as_ref().map(|system| format!("system {system}"));
        let parts =
            [system, host.os.clone(), kernel, Some(host.architecture.clone()), glibc, driver];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let host = line(&parts.join(", "), 300);
        let _ = writeln!(page, "<p class=\"faint\">Host: {host}.</p>");
    }
}

/// Writes the rows by section.
fn add_rows(page: &mut String, rows: &[Row<'_>]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h3>Comparisons</h3>\n<p>{HOW_TO_READ}</p>");
    let counts: Vec<String> = WORDS
        .iter()
        .map(|word| (rows.iter().filter(|row| row.answer.word() == *word).count(), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let _ = writeln!(page, "<p>{}: {}.</p>", counted(rows.len(), "row"), counts.join(", "));
    let mut sections: Vec<&str> = Vec::new();
    for row in rows {
        if !sections.contains(&row.section.as_str()) {
            sections.push(&row.section);
        }
    }
    for section in sections {
        let of_section: Vec<&Row<'_>> = rows.iter().filter(|row| row.section == section).collect();
        let _ = writeln!(page, "<h4>{}</h4>", line(section, LONGEST_NAME));
        page.push_str(&plot(section, &of_section));
        add_table(page, section, &of_section);
    }
}

const WORDS: [&str; 8] = [
    "better",
    "worse",
    "same",
    "different",
    "no difference",
    "no answer",
    "left out",
    "not measured",
];

fn plot(section: &str, rows: &[&Row<'_>]) -> String {
    let row = |row: &&Row<'_>| {
        let ratio = row.ratio.as_ref()?;
        let name = row.description.map_or(row.name.as_str(), |description| &description.what);
        Some(PlotRow {
            name: name.chars().take(LONGEST_ROW).collect(),
            value: Some(ratio.median),
            interval: Some(ratio.quartiles),
            band: ratio.control,
            mark: row.description.and_then(|description| description.claim),
            is_bad: matches!(row.answer, RowAnswer::Worse | RowAnswer::Different),
        })
    };
    let kind = Rows::Points {
        value: "median ratio",
        interval: "quartiles",
        band: "control",
        mark: "claim",
    };
    let title: String = section.chars().take(LONGEST_NAME).collect();
    RowPlot {
        title: &format!("Ratios: {title}"),
        description: LEGEND,
        axis: Axis { name: "ratio of ours to the other way".to_owned(), format: number },
        kind,
        rows: rows.iter().filter_map(row).collect(),
    }
    .html()
}

fn add_table(page: &mut String, section: &str, rows: &[&Row<'_>]) {
    let section = line(section, LONGEST_NAME);
    let _ = write!(page, "<table>\n<caption>Rows of {section}</caption>\n<tr>");
    for column in ["what", "claim", "ratio", "answer"] {
        let _ = write!(page, "<th scope=\"col\" class=\"w\">{column}</th>");
    }
    page.push_str("</tr>\n");
    for row in rows {
        add_row(page, row);
    }
    page.push_str("</table>\n");
}

fn add_row(page: &mut String, row: &Row<'_>) {
    let name = line(&row.name, LONGEST_NAME);
    let what = row.description.map(|one| line(&one.what, LONGEST_TEXT));
    let _ = write!(page, "<tr><th scope=\"row\">{}", what.unwrap_or_else(|| name.clone()));
    let _ = write!(
        page,
        "<details><summary>Details<span class=\"v\"> of {name}</span></summary>\n<ul>\n"
    );
    for (label, text) in details(row) {
        let _ = writeln!(page, "<li>{label}: {}</li>", lines(&text, LONGEST_TEXT));
    }
    page.push_str("</ul></details></th>");
    let claim = row.description.and_then(|one| one.claim).map(number).unwrap_or_default();
    let ratio = row.ratio.as_ref().map(|ratio| {
        let (low, high) = ratio.quartiles;
        format!(
            "{}<br><span class=\"faint\">{} to {}</span>",
            number(ratio.median),
            number(low),
            number(high)
        )
    });
    let _ = writeln!(
        page,
        "<td class=\"w\">{claim}</td><td class=\"w\">{}</td><td class=\"w\">{}</td></tr>",
        ratio.unwrap_or_default(),
        answer(row)
    );
}

/// The answer in its box, with the reason and the goal below.
fn answer(row: &Row<'_>) -> String {
    let class = match row.answer {
        RowAnswer::Better | RowAnswer::Same => "o p",
        RowAnswer::Worse => "o f",
        RowAnswer::Different => "o e",
        RowAnswer::NoDifference | RowAnswer::NoControl => "o n",
        RowAnswer::LeftOut(_) | RowAnswer::NotMeasured => "o u",
    };
    let mut text = format!("<span class=\"{class}\">{}</span>", row.answer.word());
    let why = row.answer.to_string();
    if let Some((_, why)) = why.split_once(": ") {
        let _ = write!(text, "<br>{}", lines(why, LONGEST_TEXT));
    }
    if let Some(reached) = reached(row) {
        let _ = write!(text, "<br>goal {}", if reached { "reached" } else { "missed" });
    }
    text
}

fn reached(row: &Row<'_>) -> Option<bool> {
    row.description?.reaches_goal(row.ratio.as_ref()?.median)
}

/// What else is known about a row, each with a label.
fn details(row: &Row<'_>) -> Vec<(&'static str, String)> {
    let mut all = vec![("Figure", row.name.clone())];
    if let Some(description) = row.description {
        all.push(("Source", description.source.clone()));
        all.push(("Claim", description.claim_text.clone()));
        let better = match description.better {
            Better::Lower => "a lower ratio is better".to_owned(),
            Better::Higher => "a higher ratio is better".to_owned(),
            Better::Same => {
                format!("the same within {} %", number(description.margin.unwrap_or(0.0) * 100.0))
            }
        };
        all.push(("Expected", better));
        all.push(("Goal", description.goal.map(number).unwrap_or_default()));
        all.push(("Method", description.method.clone()));
        all.push(("Not comparable", description.not_comparable.clone()));
    }
    if let Some(ratio) = &row.ratio {
        // The unit is escaped where it is written.
        let value = |one: &cabane_evidence::Measured| format!("{} {}", number(one.value), one.unit);
        all.push(("Ours", ratio.ours.as_ref().map(value).unwrap_or_default()));
        all.push(("The other way", ratio.other.as_ref().map(value).unwrap_or_default()));
        let control = |(low, high)| format!("{} to {}", number(low), number(high));
        let none = || "none".to_owned();
        all.push(("Control, quartiles", ratio.control.map_or_else(none, control)));
        all.push(("Rounds", ratio.rounds.map(number).unwrap_or_default()));
    }
    all.retain(|(_, text)| !text.trim().is_empty());
    all
}

/// Writes a figure with its unit.
pub(super) fn value_of(one: &cabane_evidence::Measured) -> String {
    with_unit(one.value, &one.unit)
}
