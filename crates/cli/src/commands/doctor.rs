// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane doctor`: which ways of mounting work here, and why others do not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use cabane_doctor::{Diagnosis, Finding, State, diagnose};
use cabane_label::escape;
use cabane_report::Result;
use clap::Args;

use crate::args::GlobalArgs;
use crate::exit_codes::{self, ExitCode};
use crate::printer::{Printer, style};
use crate::table::heading;

/// Diagnose mounting problems and suggest fixes
#[derive(Debug, Args)]
#[command(after_help = "\
Each check mounts or starts something in its own namespaces and cleans up. Each line is `ok`,
`off` (not available, and not needed), `note`, or `problem`.

The exit code is 10 if nothing can be mounted or if there is a problem.")]
pub(crate) struct DoctorArgs {
    /// Explain every line, not only the problems
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(global: &GlobalArgs, printer: Printer, args: &DoctorArgs) -> Result<ExitCode> {
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
        printer.data(text(&report, args.verbose || global.verbose > 0));
    }
    Ok(if report.healthy { exit_codes::SUCCESS } else { exit_codes::UNHEALTHY })
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
        (false, _) => "environments cannot be started here as things are".to_owned(),
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
    let found = escape(&finding.found);
    let _ = writeln!(text, "  {color}{state:<8}{color:#} {name}: {found}");
    if !explain && finding.state < State::Note {
        return;
    }
    let mut more = |label: &str, value: &str| {
        for (number, line) in value.lines().enumerate() {
            let label = if number == 0 { label } else { "" };
            let _ = writeln!(text, "           {label:<6} {}", escape(line));
        }
    };
    if explain {
        more("for", finding.purpose);
    }
    more("cause", finding.cause.as_deref().unwrap_or_default());
    more("type", finding.command.as_deref().unwrap_or_default());
}
