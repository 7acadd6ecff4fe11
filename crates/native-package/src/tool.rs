// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tools of distributions.

use std::ffi::OsStr;
use std::process::Command;

use cabane_process::installation;
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_site::env_vars;
use cabane_site::settings::find_program;

use crate::Work;

/// How much of what a tool says is shown when it fails.
const LINES: usize = 20;

/// Prepares a tool, which sees no settings of the user.
pub(crate) fn tool(work: &Work<'_>, name: &str) -> Result<Command> {
    let path = work.context.calling.get(OsStr::new(env_vars::PATH));
    let found = find_program(name, path.map(AsRef::as_ref)).ok_or_else(|| {
        let message = format!("cannot find `{name}`, which this format needs");
        Report::new(Kind::Failure, message).hinted(installation::hint(name))
    })?;
    let mut command = Command::new(found);
    command
        .current_dir(work.scratch)
        .env_clear()
        .env("PATH", path.map_or(OsStr::new(""), AsRef::as_ref))
        .env("HOME", work.scratch)
        .env("TMPDIR", work.scratch)
        .env("LC_ALL", "C.UTF-8")
        .env(env_vars::SOURCE_DATE_EPOCH, work.epoch.to_string());
    Ok(command)
}

/// Runs a tool to its end, and returns what it prints.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<String> {
    let output = command.output().or_failed(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    let message = format!("{name} failed ({})", output.status);
    Err(Report::new(Kind::Failure, message).detailed(last.join("\n")))
}
