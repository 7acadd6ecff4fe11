// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane environment`: looking at environment files.

use std::path::PathBuf;

use cabane_environment::{self as files, Checked, MissingPart, finder};
use cabane_label::{enumerate, escape, shown};
use cabane_launch::LaunchPlan;
use cabane_recipe::{Diagnostic, EnvironmentFile, EnvironmentReference};
use cabane_report::{Report, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;
use crate::table::Table;

/// What can be done with environment files.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum EnvironmentCommand {
    /// Check environment files and report every mistake
    Check(CheckArgs),
    /// Print an environment file with its bases and variables filled in
    Show(ShowArgs),
    /// List the environment files that have a name
    #[command(alias = "list")]
    Ls(LsArgs),
}

/// Check environment files and report every mistake
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Paths or names
    #[arg(required = true, value_name = "NAME|PATH")]
    files: Vec<String>,
}

/// Print an environment file with its bases and variables filled in
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A path or a name
    #[arg(value_name = "NAME|PATH")]
    file: String,
}

/// List the environment files that have a name
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: String,
    path: PathBuf,
    description: Option<String>,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let mut code = exit_codes::SUCCESS;
    for file in &args.files {
        let checked = files::load(setup, file).and_then(|read| look_up(setup, file, read));
        match checked {
            Ok(()) => setup.note(format_args!("{file}: no mistake")),
            Err(error) => {
                setup.printer.failure(&error);
                code = error.kind().into();
            }
        }
    }
    Ok(code)
}

/// Looks for everything that a file names.
fn look_up(setup: &Setup, file: &str, read: EnvironmentFile) -> Result<()> {
    let places = read.places.clone();
    let Checked { environment, missing, to_import, views_of_missing, directory_in_image } =
        files::check_file(setup, read)?;
    let entered = LaunchPlan::check(setup, environment);
    if !to_import.is_empty() {
        let list = enumerate(&to_import.iter().map(String::as_str).collect::<Vec<_>>(), "and");
        setup.note(format_args!("{file}: {} was not looked for in its registry", escape(&list)));
    }
    for view in &views_of_missing {
        setup.note(format_args!(
            "{file}: the view `{view}` was not checked: it may be in an image that is not here"
        ));
    }
    if let Some(directory) = &directory_in_image {
        let directory = shown(directory);
        setup.note(format_args!(
            "{file}: the directory {directory} was not checked: it may be in an image"
        ));
    }
    let Some(first) = missing.first() else { return entered };
    let kind = first.report.kind();
    let mut texts: Vec<String> = missing
        .iter()
        .map(|MissingPart { part, report }| placed(file, places.of(part), report))
        .collect();
    texts.extend(entered.err().map(|report| placed(file, None, &report)));
    let message = match texts.len() {
        1 => "a mistake in the environment file".to_owned(),
        count => format!("{count} mistakes in the environment file"),
    };
    Err(Report::new(kind, message).detailed(texts.join("\n")))
}

/// Writes a report as a mistake at a place of a file.
fn placed(file: &str, place: Option<&Diagnostic>, report: &Report) -> String {
    let mut message = report.to_string();
    for cause in report.causes() {
        message += &format!(": {}", escape(&cause.to_string()));
    }
    let mut text = match place {
        Some(place) => place.clone().saying(message).to_string(),
        None => format!("{}: {message}", escape(file)),
    };
    for line in report.detail().into_iter().flat_map(str::lines) {
        text += &format!("\n  {line}");
    }
    for hint in report.hints() {
        text += &format!("\n  hint: {}", hint.replace('\n', "\n        "));
    }
    text
}

pub(crate) fn show(setup: &Setup, args: &ShowArgs) -> Result<ExitCode> {
    let file = files::load(setup, &args.file)?;
    setup.printer.data(file.to_toml(&[]));
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<ExitCode> {
    let finder = finder(setup);
    let row = |(name, path): (String, PathBuf)| {
        // One with mistakes is listed, too; `check` shows them.
        let file = finder.load(&EnvironmentReference::Path(path.clone()));
        Row { name, path, description: file.ok().and_then(|file| file.description) }
    };
    let rows: Vec<Row> = finder.all().into_iter().map(row).collect();
    if args.json {
        setup.printer.json(&rows);
    } else if rows.is_empty() {
        let directories = &setup.settings.environment_directories.value;
        let list: Vec<String> = directories.iter().map(|one| one.display().to_string()).collect();
        setup.note(format_args!("there is no environment file in {}", list.join(", ")));
    } else {
        let mut table = Table::new(&["name", "file", "description"]);
        for row in &rows {
            let path = row.path.to_string_lossy();
            let description = row.description.as_deref().unwrap_or_default();
            table.push(&[&escape(&row.name), &escape(&path), &escape(description)]);
        }
        setup.printer.data(table);
    }
    Ok(exit_codes::SUCCESS)
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn environment(setup: &Setup, command: &EnvironmentCommand) -> Result<ExitCode> {
    match command {
        EnvironmentCommand::Check(args) => check(setup, args),
        EnvironmentCommand::Show(args) => show(setup, args),
        EnvironmentCommand::Ls(args) => ls(setup, args),
    }
}
