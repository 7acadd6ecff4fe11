// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import --check`: whether what images were made of has changed since.

use cabane_container::{Chosen, Layout, Platform, digest};
use cabane_label::{Label, LabelPattern, escape};
use cabane_view::ContainerSource;
use serde::Serialize;

use crate::commands::import::reference::Reference;
use crate::commands::import::remote::Remote;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::registry::of_containers;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use crate::table::{Align, Table};
use cabane_environment::complete_label;

#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("`{label}` was not imported from a registry or a layout")]
    NotImported { label: Label },
    #[error("no image has the label `{label}`")]
    NoSuchLabel { label: Label },
}

/// What became of the source of an image.
#[derive(Serialize)]
struct Checked {
    label: String,
    reference: String,
    moved: bool,
    before: String,
    now: String,
}

/// Asks for each label whether its reference still leads to the same.
pub(crate) fn check(setup: &Setup, labels: &[&str], as_json: bool) -> CommandResult<ExitCode> {
    let checked = labels.iter().map(|label| one(setup, label));
    let checked: Vec<Checked> = checked.collect::<CommandResult<_>>()?;
    if as_json {
        setup.printer.data(json(&checked));
    } else {
        let columns = ["label", "state", "was", "is"].map(|name| (name, Align::Left));
        let mut table = Table::new(&columns, true);
        for one in &checked {
            let state = if one.moved { "moved" } else { "current" };
            table.push([&one.label, &state, &short(&one.before), &short(&one.now)]);
        }
        setup.printer.data(table.to_string());
    }
    let has_moved = checked.iter().any(|one| one.moved);
    Ok(if has_moved {
        exit_codes::DIFFERENT
    } else {
        exit_codes::SUCCESS
    })
}

fn short(digest: &str) -> String {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.chars().take(16).collect()
}

fn one(setup: &Setup, typed: &str) -> CommandResult<Checked> {
    let pattern: LabelPattern = typed.parse()?;
    let label = complete_label(setup, &pattern)?;
    let not_imported = || {
        let label = label.clone();
        Report::new(Kind::BadInput, CheckError::NotImported { label })
    };
    let source = source_of(setup, &label)?.ok_or_else(not_imported)?;
    let before = source.manifest.clone().ok_or_else(not_imported)?;
    let platform: Platform = source.platform.parse().map_err(|_| not_imported())?;
    let reference: Reference = source.reference.parse().map_err(|_| not_imported())?;
    let chosen: Chosen = match &reference {
        Reference::Registry(name) => {
            let registry = of_containers(setup, &name.address, None, None)?;
            Remote::find(registry, name, &platform)?.1
        }
        Reference::Layout(path, name) => Layout::open(path, &std::env::temp_dir())
            .and_then(|layout| layout.choose(name.as_deref(), &platform))?,
        _ => return Err(not_imported()),
    };
    let now = digest::written(&chosen.digest);
    Ok(Checked {
        label: label.to_string(),
        reference: escape(&source.reference).to_string(),
        moved: now != before,
        before: escape(&before).to_string(),
        now,
    })
}

/// Finds from where the image with a label was imported.
fn source_of(setup: &Setup, label: &Label) -> CommandResult<Option<ContainerSource>> {
    for named in setup.repositories()? {
        let repository = &named.repository;
        let record = repository.by_label(label);
        if let Some(record) = record? {
            let meta = repository.meta(&record.digest);
            let meta = meta?;
            return Ok(meta.container.and_then(|container| container.source));
        }
    }
    let label = label.clone();
    Err(Report::new(
        Kind::NotFound,
        CheckError::NoSuchLabel { label },
    ))
}
