// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane doctor`: which ways of mounting work here, and why others do not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use cabane_doctor::{Diagnosis, Finding, State, diagnose};
use cabane_impact::{Verdict, check_here};
use cabane_label::escape;
use cabane_report::Result;
use clap::Args;

use crate::args::GlobalArgs;
use crate::exit_codes::{self, ExitCode};
use crate::printer::{Printer, style, verdict_color};
use crate::setup::Setup;
use crate::table::{heading, within_terminal};

/// Diagnose mounting problems and suggest fixes
#[derive(Debug, Args)]
#[command(after_help = "\
With an image, only the image is checked: whether this host has what it needs. Its metadata
say that, and the image is not started.

Each check mounts or starts something in its own namespaces and cleans up. Each line is `ok`,
`off` (not available, and not needed), `note`, or `problem`.

The exit code is 10 if nothing can be mounted, if there is a problem, or if the image breaks
on this host.")]
pub(crate) struct DoctorArgs {
    /// Check whether this image runs on this host: a label, an ID, a digest, or a path
    image: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(global: &GlobalArgs, printer: Printer, args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(image) = &args.image {
        return check_image(&Setup::new(global, printer)?, image, args.json);
    }
    let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let program = std::env::current_exe().ok();
    let (report, color) = diagnose(&global.overrides(), &calling, program.as_deref());
    let printer = match color {
        Some(color) => global.configured(printer, color),
        None => printer,
    };
    if args.json {
        printer.json(&report);
    } else {
        printer.data(text(&report, global.verbose > 0));
    }
    Ok(if report.healthy { exit_codes::SUCCESS } else { exit_codes::UNHEALTHY })
}

/// Says whether an image runs on this host.
fn check_image(setup: &Setup, image: &str, json: bool) -> Result<ExitCode> {
    let here = check_here(setup, &image.parse()?)?;
    if json {
        setup.printer.json(&here);
    } else {
        let mut text = String::new();
        let color = verdict_color(here.verdict);
        let image = escape(&here.image);
        let _ = match here.verdict {
            Verdict::Unaffected => {
                writeln!(text, "{color}ok{color:#}  {image}: this host has what it needs")
            }
            verdict => writeln!(text, "{color}{verdict}{color:#}  {image}"),
        };
        for reason in &here.reasons {
            let reason = reason.to_string();
            let _ = writeln!(text, "  {}", escape(&reason));
        }
        setup.printer.data(text);
    }
    let is_broken = here.verdict == Verdict::Breaks;
    Ok(if is_broken { exit_codes::UNHEALTHY } else { exit_codes::SUCCESS })
}

fn text(report: &Diagnosis, explain: bool) -> String {
    let mut text = String::new();
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| finding.group);
    for group in findings.chunk_by(|one, other| one.group == other.group) {
        heading(&mut text, group[0].group.title());
        for finding in group {
            line(&mut text, finding, explain);
        }
    }
    let count = findings.iter().filter(|finding| finding.state == State::Problem).count();
    let verdict = match (report.choice.works, count) {
        (true, 0) => "environments can be started here".to_owned(),
        (true, 1) => "environments can be started here; one thing is broken".to_owned(),
        (true, count) => format!("environments can be started here; {count} things are broken"),
        (false, _) => "environments cannot be started on this machine yet".to_owned(),
    };
    let color = if report.healthy { style::GOOD } else { style::ERROR };
    let _ = writeln!(text, "\n{color}{verdict}{color:#}");
    text
}

fn line(text: &mut String, finding: &Finding, explain: bool) {
    let color = match finding.state {
        State::Ok => style::GOOD,
        State::Off => style::FAINT,
        State::Note => style::WARNING,
        State::Problem => style::ERROR,
    };
    let state = finding.state.word();
    let name = escape(&finding.name);
    let found = within_terminal(&format!("{name}: {}", escape(&finding.found)), 11);
    let _ = writeln!(text, "  {color}{state:<8}{color:#} {found}");
    if !explain && finding.state < State::Note {
        return;
    }
    let mut more = |label: &str, value: &str| {
        for (number, line) in value.lines().enumerate() {
            let is_command = label == "type";
            let label = if number == 0 { label } else { "" };
            let line = escape(line);
            // A command stays one line, to be copied.
            let line = if is_command { line.into() } else { within_terminal(&line, 18) };
            let _ = writeln!(text, "           {label:<6} {line}");
        }
    };
    if explain {
        more("for", finding.purpose);
    }
    more("cause", finding.cause.as_deref().unwrap_or_default());
    more("type", finding.command.as_deref().unwrap_or_default());
}
