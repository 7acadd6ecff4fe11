// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One cell on the page: its stages, its checks, and the end of a log. Pure.

use std::fmt::Write as _;

use cabane_check::CheckReport;
use cabane_label::escape_html;
use cabane_web_page::{chip, class, date, duration, last_lines, line, lines, words};

use super::figures::Plots;
use super::{PageCell, anchor};
use crate::stage::StageResult;

/// The most characters of a message, a hint, or a reason. The log has the rest.
const LONGEST_MESSAGE: usize = 1500;
const LONGEST_NAME: usize = 80;

/// Writes the section of a cell up to its log.
pub(super) fn add(page: &mut String, cell: &PageCell, is_open: bool, plots: &mut Plots) {
    let summary = &cell.summary;
    let open = if is_open { " open" } else { "" };
    let _ = write!(
        page,
        "<details{open}><summary><h3>{}</h3> {}",
        escape_html(&summary.cell.to_string()),
        chip(summary.outcome)
    );
    if let Some(culprit) = summary.culprit() {
        let _ = write!(page, " <span class=\"faint\">{}</span>", culprit.stage);
    }
    let _ = writeln!(page, "</summary>\n<div id=\"{}\">", anchor(&summary.cell));
    if let Some(digest) = &summary.digest {
        let _ = writeln!(page, "<p>Image <code>{digest}</code></p>");
    }
    if summary.stages.is_empty() {
        page.push_str("<p>No stage has a result.</p>\n");
    } else {
        page.push_str("<h4>Stages</h4>\n<ol>\n");
        for stage in &summary.stages {
            add_stage(page, stage);
        }
        page.push_str("</ol>\n");
    }
    for stage in &summary.stages {
        if let Some(report) = &stage.report {
            add_checks(page, report);
            plots.add_cell(page, stage);
        }
    }
}

/// Writes the end of the log, with that many bytes at most, and ends the section.
pub(super) fn end(page: &mut String, cell: &PageCell, bytes_of_log: usize) {
    add_log(page, cell, bytes_of_log);
    page.push_str("</div></details>\n");
}

fn add_stage(page: &mut String, result: &StageResult) {
    let started = date(result.started);
    let _ = write!(
        page,
        "<li>{} {} <span class=\"faint\">{started}, {}</span>",
        result.stage,
        chip(Some(result.outcome)),
        duration(result.seconds())
    );
    if let Some(message) = &result.message {
        let _ = write!(page, "\n<p class=\"text\">{}</p>", lines(message, LONGEST_MESSAGE));
    }
    for hint in &result.hints {
        let hint = lines(hint, LONGEST_MESSAGE);
        let _ = write!(page, "\n<p class=\"text\"><b>hint:</b> {hint}</p>");
    }
    page.push_str("</li>\n");
}

fn add_checks(page: &mut String, report: &CheckReport) {
    page.push_str("<h4>Checks</h4>\n");
    let host = &report.host;
    let kernel = host.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    let glibc = host.glibc.as_ref().map(|glibc| format!("glibc {glibc}"));
    let driver = host.nvidia_driver.as_ref().map(|driver| format!("NVIDIA driver {driver}"));
    let parts = [host.os.clone(), kernel, Some(host.architecture.clone()), glibc, driver];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let _ = writeln!(page, "<p class=\"faint\">They ran on {}.</p>", line(&parts.join(", "), 300));
    if !report.left_out.is_empty() {
        let names = line(&report.left_out.join(", "), LONGEST_MESSAGE);
        let _ = writeln!(page, "<p>These checks were left out: {names}.</p>");
    }
    page.push_str("<table>\n<tr>");
    for column in ["check", "outcome", "time", "reason"] {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr>\n");
    for check in &report.checks {
        let reason = check.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td><span class=\"{}\">{}</span></td><td>{}</td>\
             <td class=\"text\">{}</td></tr>",
            line(&check.name, LONGEST_NAME),
            class(Some(check.outcome)),
            words(Some(check.outcome)),
            duration(check.seconds),
            lines(reason, LONGEST_MESSAGE)
        );
    }
    page.push_str("</table>\n");
}

fn add_log(page: &mut String, cell: &PageCell, bytes: usize) {
    let Some(log) = &cell.log else { return };
    let (text, is_shortened) = last_lines(&log.text, bytes);
    if text.is_empty() {
        return;
    }
    let stage = log.stage;
    let part = if log.is_cut || is_shortened { "End of the log" } else { "Log" };
    let _ = writeln!(page, "<details><summary>{part} of {stage}</summary>\n<div>");
    if log.is_cut || is_shortened {
        let name = escape_html(&cell.summary.cell.to_string());
        let _ = writeln!(
            page,
            "<p><code>cabane pipeline logs {name} {stage}</code> prints all of it.</p>"
        );
    }
    // A browser drops the first end of a line.
    let _ = writeln!(page, "<pre>\n{text}\n</pre></div></details>");
}
