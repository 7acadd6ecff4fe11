// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Results as `JUnit` has them, for the display of a CI.

use std::fmt::Write as _;

use cabane_evidence::Outcome;

use crate::outcome::{CheckReport, CheckResult};

/// Returns a report in the format of `JUnit`: a failure is `failure`, an error of the infrastructure is
/// `error`, and what was not tested is `skipped`.
#[must_use]
pub fn junit(reports: &[CheckReport]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for report in reports {
        let count = |outcome| report.checks.iter().filter(|one| one.outcome == outcome).count();
        let seconds: f64 = report.checks.iter().map(|one| one.seconds).sum();
        let name = report.label.as_ref().map_or_else(|| report.image.clone(), ToString::to_string);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
             time=\"{seconds:.3}\" timestamp=\"{}\">",
            quoted(&name),
            report.checks.len(),
            count(Outcome::Failed),
            count(Outcome::Error),
            count(Outcome::NotTested),
            report.started.strftime("%FT%T"),
        );
        for check in &report.checks {
            case(&mut text, &name, check);
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(text: &mut String, image: &str, check: &CheckResult) {
    let (image, name, seconds) = (quoted(image), quoted(&check.name), check.seconds);
    let _ =
        write!(text, "    <testcase classname=\"{image}\" name=\"{name}\" time=\"{seconds:.3}\"");
    let reason = quoted(check.reason.as_deref().unwrap_or_default());
    let element = match check.outcome {
        Outcome::Passed => return text.push_str("/>\n"),
        Outcome::Failed => "failure",
        Outcome::Error => "error",
        Outcome::NotTested => "skipped",
    };
    let _ = writeln!(text, "><{element} message=\"{reason}\"/></testcase>");
}

/// Writes a text for an attribute. What XML cannot have becomes a question mark.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => quoted.push_str("&amp;"),
            '<' => quoted.push_str("&lt;"),
            '>' => quoted.push_str("&gt;"),
            '"' => quoted.push_str("&quot;"),
            '\t' | '\n' | '\r' => quoted.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => quoted.push('?'),
            c => quoted.push(c),
        }
    }
    quoted
}
