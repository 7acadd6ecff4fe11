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
        let hint = format!("`cabane import IMAGE {label}` records from where it comes");
        Report::new(Kind::BadInput, error).hinted(hint)
    };
    let (source, reference) = source_of(context, &label)?.ok_or_else(not_imported)?;
    let before = source.manifest.clone().ok_or_else(not_imported)?;
    let platform: Platform = source.platform.parse().map_err(|_| not_imported())?;
    let found: Reference = reference.parse().map_err(|_| not_imported())?;
    let chosen: Chosen = match &found {
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
        reference: escape(&reference).to_string(),
        moved: now != before,
        before: escape(&before).to_string(),
        now,
    })
}

/// Finds what the image with a label was made of, and from where this label was imported. An image whose
/// labels have no source, such as one that was pulled, says itself from where it came first.
fn source_of(context: &Context, label: &Label) -> Result<Option<(ContainerSource, String)>> {
    for named in context.repositories()? {
        let repository = &named.repository;
        if let Some(record) = repository.by_label(label)? {
            let meta = repository.meta(&record.digest)?;
            let source = meta.container.and_then(|container| container.source);
            let recorded = repository.reference(&record)?;
            return Ok(source.and_then(|source| {
                let reference = recorded.or_else(|| of_image(&source.reference))?;
                Some((source, reference))
            }));
        }
    }
    Err(Report::new(Kind::NotFound, format!("no image has the label `{label}`")))
}

/// Returns the reference in an image, if it leads anywhere: of a file, only old images have the directory.
fn of_image(reference: &str) -> Option<String> {
    match reference.parse().ok()? {
        Reference::Registry(_) => Some(reference.to_owned()),
        Reference::Layout(path, _) if path.is_absolute() => Some(reference.to_owned()),
        _ => None,
    }
}
