// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether what an image was made of has changed since.

use cabane_container::{Chosen, Layout, Platform, digest};
use cabane_environment::complete_label;
use cabane_label::{Label, LabelPattern, escape};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_view::ContainerSource;
use serde::Serialize;

use crate::import::reference::Reference;
use crate::import::remote::Remote;
use crate::registry::of_containers;

/// What became of the source of an image.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedSource {
    /// The label of the image.
    pub label: String,
    /// The source, as it was typed at the import.
    pub reference: String,
    /// Whether the source leads to another image now.
    pub moved: bool,
    /// The digest of what was imported.
    pub before: String,
    /// The digest to which the source leads now.
    pub now: String,
}

/// Asks whether the source of an image still leads to the same.
///
/// # Errors
///
/// A label that is malformed, that no image has, or whose image was not imported; and those of
/// asking.
pub fn check_source(context: &Context, typed: &str) -> Result<CheckedSource> {
    let pattern: LabelPattern = typed.parse()?;
    let label = complete_label(context, &pattern)?;
    let not_imported = || {
        let error = format!("`{label}` was not imported from a registry or a layout");
        Report::new(Kind::BadInput, error)
    };
    let source = source_of(context, &label)?.ok_or_else(not_imported)?;
    let before = source.manifest.clone().ok_or_else(not_imported)?;
    let platform: Platform = source.platform.parse().map_err(|_| not_imported())?;
    let reference: Reference = source.reference.parse().map_err(|_| not_imported())?;
    let chosen: Chosen = match &reference {
        Reference::Registry(name) => {
            let registry = of_containers(context, &name.address, None, None)?;
            Remote::find(registry, name, &platform)?.1
        }
        Reference::Layout(path, name) => Layout::open(path, &std::env::temp_dir())
            .and_then(|layout| layout.choose(name.as_deref(), &platform))?,
        _ => return Err(not_imported()),
    };
    let now = digest::written(&chosen.digest);
    Ok(CheckedSource {
        label: label.to_string(),
        reference: escape(&source.reference).to_string(),
        moved: now != before,
        before: escape(&before).to_string(),
        now,
    })
}

/// Finds from where the image with a label was imported.
fn source_of(context: &Context, label: &Label) -> Result<Option<ContainerSource>> {
    for named in context.repositories()? {
        let repository = &named.repository;
        if let Some(record) = repository.by_label(label)? {
            let meta = repository.meta(&record.digest)?;
            return Ok(meta.container.and_then(|container| container.source));
        }
    }
    Err(Report::new(Kind::NotFound, format!("no image has the label `{label}`")))
}
