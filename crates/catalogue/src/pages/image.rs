// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The page about an image. Pure.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_report::size;
use cabane_web_page::{chip, counted, is_outside, line, lines, permitted, with_unit};

use crate::differences::{Difference, differences};
use crate::file_name::file_name;
use crate::html::{
    Frame, LONGEST_NAME, LONGEST_TEXT, begin_table, end_table, label, state_chip, time,
};
use crate::input::{Figure, ImageEvidence, Source, TestResult};
use crate::model::{BeforeView, ImageView, LineList, RowView};

/// How far a page about an image is below the first directory.
const DEPTH: usize = 2;
const UP: &str = "../../";

/// Writes the page.
pub(crate) fn page(frame: &Frame, view: &ImageView<'_>) -> Vec<u8> {
    let Some(first) = view.rows.first() else { return Vec::new() };
    let title = first.image.label.to_string();
    let mut body = format!("<h1>{}</h1>\n", label(&title));
    add_summary(&mut body, view, first);
    add_use(&mut body, frame, view, first);
    add_labels(&mut body, view);
    add_details(&mut body, view, first);
    add_evidence(&mut body, first.image.evidence.as_ref());
    add_builds(&mut body, view, first.image.evidence.as_ref());
    if let Some(before) = &view.before {
        add_difference(&mut body, before, view.lines.as_ref());
    }
    add_packages(&mut body, view.lines.as_ref());
    frame.page(DEPTH, &title, &body)
}

fn add_summary(body: &mut String, view: &ImageView<'_>, first: &RowView<'_>) {
    for row in &view.rows {
        if let Some((date, reason)) = row.revocation {
            let _ = writeln!(
                body,
                "<p class=\"warning\"><b>Do not use this image.</b> It was revoked on {date}: {}</p>",
                lines(reason, LONGEST_TEXT)
            );
            break;
        }
    }
    if let Some(text) = &first.image.details.description {
        let _ = writeln!(body, "<p class=\"text\">{}</p>", lines(text, LONGEST_TEXT));
    }
    let mut facts = vec![
        ("Digest", format!("<code>{}</code>", first.image.digest)),
        ("Size", size(first.image.size)),
    ];
    if let Some(date) = first.image.date {
        facts.push(("Pushed", time(date)));
    }
    let details = &first.image.details;
    if let Some(mount) = &details.mount {
        facts.push(("Mount point", format!("<code>{}</code>", line(mount, LONGEST_TEXT))));
    }
    if let Some(engine) = &details.engine {
        facts.push(("Built by", line(engine, LONGEST_NAME)));
    }
    if let Some(signature) = &first.image.signature {
        facts.push(("Signed", line(signature, LONGEST_TEXT)));
    }
    body.push_str("<dl>");
    for (name, value) in facts {
        let _ = write!(body, "<dt>{name}</dt><dd>{value}</dd>");
    }
    body.push_str("</dl>\n");
}

/// Writes what to type.
fn add_use(body: &mut String, frame: &Frame, view: &ImageView<'_>, first: &RowView<'_>) {
    if view.rows.iter().any(|row| row.revocation.is_some()) {
        return;
    }
    let (namespace, name) = (&first.image.namespace, &first.image.label);
    let short = format!("{}/{}:{}", name.name, name.version, name.tag);
    body.push_str("<h2 id=\"use\">Use it</h2>\n<pre>");
    if matches!(frame.source, Source::Registry(_)) {
        let long = format!("{namespace}::{name}");
        let _ = writeln!(body, "cabane image pull {}", escape_html(&long));
    }
    let _ = writeln!(body, "cabane start {}", escape_html(&short));
    let details = &first.image.details;
    let other = details.views.iter().find(|(view, _)| Some(view) != details.default_view.as_ref());
    if let Some((view, _)) = other {
        let view = line(view, LONGEST_NAME);
        let _ = writeln!(body, "cabane run {} --view {view} -- COMMAND", escape_html(&short));
    }
    body.push_str("</pre>\n");
}

fn add_labels(body: &mut String, view: &ImageView<'_>) {
    body.push_str("<h2 id=\"releases\">Labels and releases</h2>\n");
    begin_table(body, "Labels and releases", &["label", "state", "channels"]);
    for row in &view.rows {
        let image = row.image;
        let _ = write!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>",
            label(&format!("{}::{}", image.namespace, image.label)),
            state_chip(row.state)
        );
        for (number, release) in row.releases.iter().enumerate() {
            let separator = if number > 0 { "<br>" } else { "" };
            let is_default = if release.is_default { ", the default version" } else { "" };
            let _ = write!(
                body,
                "{separator}{} since {}{is_default}",
                label(&release.channel),
                release.promoted
            );
            let Some(retirement) = &release.retirement else { continue };
            let _ = write!(body, "; retired on {}", retirement.date);
            if let Some(replacement) = &retirement.replacement {
                let _ = write!(body, ", use <code>{}</code>", line(replacement, LONGEST_NAME));
            }
            if let Some(reason) = &retirement.reason {
                let _ = write!(body, ": {}", line(reason, LONGEST_TEXT));
            }
        }
        body.push_str("</td></tr>\n");
    }
    end_table(body);
}

fn add_details(body: &mut String, view: &ImageView<'_>, first: &RowView<'_>) {
    let details = &first.image.details;
    if !details.views.is_empty() {
        body.push_str("<h2 id=\"views\">Views</h2>\n<ul>\n");
        for (name, text) in &details.views {
            let is_default = details.default_view.as_ref() == Some(name);
            let mark = if is_default { " (default)" } else { "" };
            let _ = write!(body, "<li><code>{}</code>{mark}", line(name, LONGEST_NAME));
            if let Some(text) = text {
                let _ = write!(body, ": {}", line(text, LONGEST_TEXT));
            }
            body.push_str("</li>\n");
        }
        body.push_str("</ul>\n");
    }
    if !details.needs.is_empty() {
        body.push_str("<h2 id=\"needs\">What it needs of the system</h2>\n<ul>\n");
        for need in &details.needs {
            let _ = writeln!(body, "<li>{}</li>", line(need, LONGEST_TEXT));
        }
        body.push_str("</ul>\n");
    }
    if !view.dependents.is_empty() {
        body.push_str("<h2 id=\"dependents\">Images built on it</h2>\n<ul>\n");
        for (name, page) in &view.dependents {
            let _ = writeln!(body, "<li><a href=\"{UP}i/{page}.html\">{}</a></li>", label(name));
        }
        body.push_str("</ul>\n");
    }
}

fn add_evidence(body: &mut String, evidence: Option<&ImageEvidence>) {
    let Some(evidence) = evidence else { return };
    body.push_str("<h2 id=\"evidence\">Tests</h2>\n");
    if evidence.results.is_empty() {
        body.push_str("<p>There is no result that counts.</p>\n");
    } else {
        let columns = ["system", "outcome", "date", "passed", "not passed", "by"];
        begin_table(body, "Results of tests", &columns);
        for result in &evidence.results {
            add_result(body, result);
        }
        end_table(body);
    }
    if evidence.ignored > 0 {
        let statements = counted(evidence.ignored, "more statement");
        let verb = if evidence.ignored == 1 { "does" } else { "do" };
        let _ = writeln!(body, "<p class=\"faint\">{statements} {verb} not count here.</p>");
    }
    let figures = evidence.results.iter().filter(|result| !result.figures.is_empty());
    for result in figures {
        let system = line(result.system.as_deref().unwrap_or("an unknown system"), LONGEST_NAME);
        let name = format!("Figures on {system}, {}", crate::html::day(result.finished));
        let _ = writeln!(body, "<h3 class=\"block\">{name}</h3>");
        begin_table(body, &name, &["figure", "value", "permitted"]);
        for Figure { test, measured } in &result.figures {
            let outside = if is_outside(measured) { " <b>outside</b>" } else { "" };
            let _ = writeln!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{}{outside}</td><td>{}</td></tr>",
                line(&format!("{test}: {}", measured.variable), LONGEST_NAME),
                with_unit(measured.value, &measured.unit),
                permitted(measured)
            );
        }
        end_table(body);
    }
}

fn add_result(body: &mut String, result: &TestResult) {
    let system = line(result.system.as_deref().unwrap_or("unknown"), LONGEST_NAME);
    let generation = result.generation.as_deref().map(|generation| line(generation, LONGEST_NAME));
    let generation = generation.map(|text| format!(" <span class=\"faint\">({text})</span>"));
    let partial = if result.is_partial { " in part" } else { "" };
    let finished = result.finished.map(time).unwrap_or_default();
    let _ = write!(
        body,
        "<tr><th scope=\"row\">{system}{}</th><td>{}{partial}</td><td>{finished}</td><td>{}</td><td class=\"wrap\">",
        generation.unwrap_or_default(),
        chip(Some(result.outcome)),
        result.passed,
    );
    for (number, (name, reason)) in result.failed.iter().enumerate() {
        let separator = if number > 0 { "<br>" } else { "" };
        let reason = line(reason, LONGEST_TEXT);
        let colon = if reason.is_empty() { "" } else { ": " };
        let _ = write!(body, "{separator}{}{colon}{reason}", line(name, LONGEST_NAME));
    }
    let (runner, key) = (line(&result.runner, LONGEST_NAME), line(&result.key, LONGEST_NAME));
    let _ = writeln!(body, "</td><td>{runner}, signed with {key}</td></tr>");
}

fn add_builds(body: &mut String, view: &ImageView<'_>, evidence: Option<&ImageEvidence>) {
    let built = evidence.map(|evidence| evidence.built.as_slice()).unwrap_or_default();
    if built.is_empty() {
        return;
    }
    body.push_str("<h2 id=\"provenance\">Where it comes from</h2>\n<ul>\n");
    for one in built {
        body.push_str("<li>Built");
        if let Some((address, commit)) = &one.recipe {
            let _ = write!(body, " from {}", linked(address));
            let _ = write!(body, ", commit <code>{}</code>", line(commit, 64));
        }
        if let Some(finished) = one.finished {
            let _ = write!(body, ", {}", time(finished));
        }
        let _ = writeln!(body, ", signed with {}</li>", line(&one.key, LONGEST_NAME));
    }
    for (name, page) in &view.bases {
        let _ =
            writeln!(body, "<li>Built on <a href=\"{UP}i/{page}.html\">{}</a></li>", label(name));
    }
    body.push_str("</ul>\n");
}

/// Returns an address as a link if it is one of the web, and as text if it is anything else.
fn linked(address: &str) -> String {
    let shown = line(address, LONGEST_TEXT);
    let web = address.strip_prefix("git+").unwrap_or(address);
    let is_web = ["https://", "http://"].iter().any(|scheme| web.starts_with(scheme));
    let is_plain = web.chars().all(|c| c.is_ascii_graphic()) && web.len() < LONGEST_TEXT;
    if is_web && is_plain {
        return format!("<a href=\"{}\" rel=\"nofollow noopener\">{shown}</a>", escape_html(web));
    }
    format!("<code>{shown}</code>")
}

fn add_difference(body: &mut String, before: &BeforeView<'_>, lines: Option<&LineList<'_>>) {
    let _ = writeln!(
        body,
        "<h2 id=\"difference\">Compared to the image before</h2>\n\
         <p>The image before is <a href=\"{UP}i/{}.html\">{}</a>.</p>",
        before.page,
        label(&before.label)
    );
    let (Some(old), Some(new)) = (&before.lines, lines) else {
        body.push_str("<p>It is not known which packages changed.</p>\n");
        return;
    };
    let found = differences(&old.lines, &new.lines);
    if found.is_empty() {
        body.push_str("<p>Both have the same packages.</p>\n");
        return;
    }
    begin_table(body, "Changed packages", &["package", "before", "now"]);
    for Difference { name, before, now } in found {
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td class=\"wrap\">{}</td><td class=\"wrap\">{}</td></tr>",
            package_link(name),
            line(&before, LONGEST_TEXT),
            line(&now, LONGEST_TEXT)
        );
    }
    end_table(body);
}

fn add_packages(body: &mut String, packages: Option<&LineList<'_>>) {
    let Some(packages) = packages else {
        body.push_str("<h2 id=\"packages\">Packages</h2>\n<p>The image does not say which packages it has.</p>\n");
        return;
    };
    let packages = &packages.lines;
    let _ = writeln!(body, "<h2 id=\"packages\">{}</h2>", counted(packages.len(), "package"));
    body.push_str("<ul class=\"packages\">\n");
    for line_of in packages {
        let package = &line_of.package;
        let _ = write!(body, "<li>{}", package_link(package.name));
        if !package.version.is_empty() {
            let _ = write!(body, " {}", line(package.version, LONGEST_NAME));
        }
        if package.external {
            body.push_str(" of the system");
        }
        let made: Vec<&str> = [package.variants, package.compilers, package.target]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        if !made.is_empty() {
            let _ = write!(
                body,
                " <span class=\"faint\">{}</span>",
                line(&made.join(" "), LONGEST_TEXT)
            );
        }
        body.push_str("</li>\n");
    }
    body.push_str("</ul>\n");
}

/// Returns a link to the page of a package.
fn package_link(name: &str) -> String {
    format!("<a href=\"{UP}p/{}.html\">{}</a>", file_name(name), line(name, LONGEST_NAME))
}
