// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv repo`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_report::{Kind, Report, Result};
use cabane_repository::{Corruption, Error, Migration, Repository, Status};
use cabane_site::open_repository;
use serde_json::json;

use super::args::{MigrateArgs, PathArgs, RepoStatusArgs, UpdateArgs};
use super::words;
use crate::setup::Setup;

/// Returns the path that was typed, or that of the user's own repository.
fn path_of(setup: &Setup, args: &PathArgs) -> Result<PathBuf> {
    match &args.path {
        Some(path) => Ok(path.clone()),
        None => setup.default_repository_path(),
    }
}

pub(super) fn create(setup: &Setup, args: &PathArgs) -> Result<()> {
    let path = path_of(setup, args)?;
    let created = Repository::create_uenv(&path);
    created.map_err(|error| {
        words::headed(format!("unable to create repository: {}", path.display()), error.into())
    })?;
    Ok(())
}

/// Returns the state of a repository; none where there is no repository.
fn state(path: &Path) -> Result<Option<Status>> {
    match open_repository(path) {
        Err(Error::NotARepository { .. }) => Ok(None),
        opened => Ok(Some(opened?.status(false)?)),
    }
}

/// Returns the images that are missing, with their labels.
fn missing(status: &Status) -> BTreeMap<String, Vec<String>> {
    let mut missing: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for corruption in &status.damaged {
        if let Corruption::MissingImage { label, digest } = corruption {
            missing.entry(digest.to_string()).or_default().push(label.to_string());
        }
    }
    missing
}

pub(super) fn status(setup: &Setup, args: &RepoStatusArgs) -> Result<()> {
    let path = path_of(setup, &args.repository)?;
    let status = state(&path)?;
    let word = match &status {
        None => "no_exist",
        Some(status) if status.writable => "readwrite",
        Some(_) => "readonly",
    };
    let missing = status.as_ref().map(missing).unwrap_or_default();
    let shown = path.display();
    if args.json {
        let is_lustre = status.as_ref().is_some_and(|status| status.file_system == "lustre");
        let digests =
            missing.iter().map(|(digest, labels)| json!({"digest": digest, "labels": labels}));
        let answer = json!({
            "path": path,
            "status": word,
            "fstype": if is_lustre { "lustre" } else { "unknown" },
            "updates": if missing.is_empty() { vec![] } else { vec!["storage"] },
            "digest-remove": digests.collect::<Vec<_>>(),
        });
        setup.printer.data(format_args!("{answer}\n"));
        return Ok(());
    }
    if status.is_none() {
        setup.printer.data(format_args!("{shown} is not a repository\n"));
        return Ok(());
    }
    let mut text = format!("the repository {shown} is {word}\n");
    if !missing.is_empty() {
        text += "  - has missing uenv images:\n";
        for (digest, labels) in &missing {
            for label in labels {
                text += &format!("    {digest} {label}\n");
            }
        }
        text += &format!("\nrun 'uenv repo update {shown}' to apply updates to the repository\n");
    }
    setup.printer.data(text);
    Ok(())
}

pub(super) fn update(setup: &Setup, args: &UpdateArgs) -> Result<()> {
    let path = path_of(setup, &args.repository)?;
    let shown = path.display();
    let Some(status) = state(&path)? else {
        return Err(Report::new(Kind::Repository, format!("no repository at {shown}")));
    };
    if !status.writable {
        let error = format!("the repository at {shown} is read only");
        return Err(Report::new(Kind::Repository, error));
    }
    let missing = missing(&status);
    let mut text = String::new();
    if !missing.is_empty() {
        text += &format!("the repository at {shown} has missing uenv images:\n");
        for digest in missing.keys() {
            text += &format!("  removing stale ref {digest}\n");
        }
    }
    open_repository(&path)?.update()?;
    text += &format!("The repository {shown} is up to date\n");
    setup.printer.data(text);
    Ok(())
}

pub(super) fn migrate(setup: &Setup, args: &MigrateArgs) -> Result<()> {
    let (source, target) = match args.paths.as_slice() {
        [source, target, ..] => (open_repository(source)?, target),
        [target] => (setup.repository_to_write()?.repository, target),
        [] => return Ok(()),
    };
    let there = match open_repository(target) {
        Err(Error::NotARepository { .. }) => None,
        opened => Some(opened?),
    };
    let (from, to) = (source.path().display(), target.display());
    if there.is_some() && args.no_sync {
        let error =
            format!("destination repo {to} can not be migrated to because it already exists");
        return Err(Report::new(Kind::Repository, error)
            .hinted("`--sync` adds to a repository that exists".to_owned()));
    }
    let target = there.map_or_else(|| Repository::create_uenv(target), Ok)?;
    setup.printer.data(format_args!("migrate repo from {from} to {to}\n"));
    let how = Migration { sync: true, replace: false };
    let migrated = source.migrate_to(&target, how, &mut |_, _, _| ())?;
    for label in &migrated.differing {
        setup.warning(format_args!("kept the label {label}, which belongs to another image there"));
    }
    if let Some((label, reason)) = migrated.failed.first() {
        let error = format!("unable to copy {label}: {reason}");
        return Err(Report::new(Kind::Repository, error));
    }
    setup.printer.data("migration finished successfully\n");
    Ok(())
}
