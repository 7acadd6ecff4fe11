// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo`: making repositories and looking after them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cabane_report::{Report, Result, size};
use cabane_repository::{Error, Kind, Repository, Status};
use cabane_site::open_repository;
use clap::Args;
use serde_json::Value;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Create a repository
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its path; default: your own repository
    path: Option<PathBuf>,
    /// Create a uenv repository, for use with cabane and uenv
    #[arg(long)]
    uenv: bool,
}

/// Show the contents of a repository and check its integrity
#[derive(Debug, Args)]
#[command(after_help = "\
For each problem the report has a command that repairs it; the exit code is then 6. It also
works on uenv repositories.")]
pub(crate) struct StatusArgs {
    /// The repository; default: all that are in use
    path: Option<PathBuf>,
    /// Read every image and check its digest
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Clean up a repository and rebuild its index
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The repository; default: the one for new images
    path: Option<PathBuf>,
}

pub(crate) fn create(setup: &Setup, args: &CreateArgs) -> Result<ExitCode> {
    let path = match &args.path {
        Some(path) => path.clone(),
        None => setup.default_repository_path()?,
    };
    let repository =
        if args.uenv { Repository::create_uenv(&path)? } else { Repository::create(&path)? };
    setup.note(format_args!("made the repository {}", repository.path().display()));
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn status(setup: &Setup, args: &StatusArgs) -> Result<ExitCode> {
    let repositories = match &args.path {
        Some(path) => vec![open_repository(path)?],
        None => setup.repositories()?.into_iter().map(|named| named.repository).collect(),
    };
    let status = |repository: &Repository| {
        if args.verify { verify(setup, repository) } else { repository.status(false) }
    };
    let all: Vec<Status> = repositories.iter().map(status).collect::<Result<_, _>>()?;
    if args.json {
        let all: Vec<Value> = all.iter().map(with_remedies).collect();
        setup.printer.json(&all);
    } else if all.is_empty() {
        setup.note("there is no repository yet; `cabane repo create` makes one");
    } else {
        let texts: Vec<String> = all.iter().map(describe).collect();
        setup.printer.data(texts.join("\n"));
    }
    let is_whole = all.iter().all(|status| status.damaged.is_empty());
    Ok(if is_whole { exit_codes::SUCCESS } else { exit_codes::REPOSITORY })
}

/// Reads all images, and shows how far it is.
fn verify(setup: &Setup, repository: &Repository) -> Result<Status, Error> {
    let watched = setup.transfer("verifying images");
    let status = repository.verify(&mut |done, total| watched.show(done, total));
    watched.end();
    status
}

fn describe(status: &Status) -> String {
    let access = if status.writable { "read and write" } else { "read only" };
    let mut text = format!("{}\n", status.path.display());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    if status.kind == Kind::Uenv {
        line("kind", "repository of uenv".to_owned());
    }
    line("file system", format!("{}, {access}", status.file_system));
    line("labels", status.labels.to_string());
    line("images", format!("{} ({})", status.images, size(status.bytes)));
    if status.deduplicated > 0 {
        line(
            "",
            format!(
                "{} of them deduplicated; {} on disk",
                status.deduplicated,
                size(status.stored)
            ),
        );
    }
    if status.restricted > 0 {
        line("", format!("{} of them closed to you", status.restricted));
    }
    if status.downloads > 0 {
        let (count, bytes) = (status.downloads, size(status.download_bytes));
        line("downloads", format!("{count} unfinished ({bytes})"));
    }
    line("free", size(status.free));
    match status.damaged.len() {
        0 => line("state", "whole".to_owned()),
        count => line("state", format!("damaged: {count} found")),
    }
    for corruption in &status.damaged {
        line("", corruption.to_string());
        for remedy in corruption.remedies(&status.path) {
            line("", format!("  `{remedy}`"));
        }
        if let Some(loss) = corruption.loss() {
            line("", format!("  {loss}"));
        }
    }
    text
}

/// Adds to each corruption what it is called and what can be typed to repair it.
fn with_remedies(status: &Status) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    let list = value.get_mut("damaged").and_then(Value::as_array_mut);
    for (corruption, shown) in status.damaged.iter().zip(list.into_iter().flatten()) {
        shown["message"] = corruption.to_string().into();
        shown["remedies"] = corruption.remedies(&status.path).into();
    }
    value
}

/// Opens the repository at a path, or the one that is written to.
pub(crate) fn repository_at(setup: &Setup, path: Option<&Path>) -> Result<Repository> {
    match path {
        Some(path) => open_repository(path).map_err(Report::from),
        None => Ok(setup.repository_to_write()?.repository),
    }
}

pub(crate) fn update(setup: &Setup, args: &UpdateArgs) -> Result<ExitCode> {
    let repository = repository_at(setup, args.path.as_deref())?;
    let repaired = repository.update()?;
    let note = |text: String| setup.note(text);
    if repaired.leftovers > 0 {
        note(format!("removed {} temporary files", repaired.leftovers));
    }
    for digest in &repaired.restored {
        note(format!("brought the image {} back", digest.id()));
    }
    for label in &repaired.rewritten {
        note(format!("repaired the label {label}"));
    }
    for file in &repaired.dropped {
        note(format!("removed {file}, whose image is gone"));
    }
    for digest in &repaired.removed {
        note(format!("removed the image {}, which no label names", digest.id()));
    }
    for digest in &repaired.without_label {
        note(format!("the image {digest} has no label; `cabane image rm` removes it"));
    }
    if repaired.is_nothing() && repaired.without_label.is_empty() {
        note(format!("{} is whole", repository.path().display()));
    }
    Ok(exit_codes::SUCCESS)
}
