// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How the images of a registry are shown.

use cabane_registry::Listed;
use serde::Serialize;

use crate::commands::image::ls::image_table;
use crate::packages::FoundPackages;
use crate::table::{Align, Table};
use cabane_report::size;
use cabane_signature_policy::SignatureVerdict;

/// The keys of a template.
pub(crate) const KEYS: &[&str] = &[
    "namespace",
    "name",
    "version",
    "tag",
    "system",
    "uarch",
    "label",
    "id",
    "digest",
    "sha256",
    "size",
    "date",
    "packages",
    "signed",
];

/// An image, and what was asked about it.
pub(crate) struct FoundImage {
    pub(crate) image: Listed,
    /// Those that were looked for.
    pub(crate) packages: Option<FoundPackages>,
    pub(crate) signature: Option<SignatureVerdict>,
}

impl FoundImage {
    pub(crate) fn of(image: Listed) -> Self {
        Self {
            image,
            packages: None,
            signature: None,
        }
    }
}

pub(crate) fn table(found: &[FoundImage], has_head: bool) -> Table {
    let mut table = image_table(has_head);
    let (has_packages, has_signatures) = found.first().map_or((false, false), |one| {
        (one.packages.is_some(), one.signature.is_some())
    });
    if has_packages {
        table.add_column("packages", Align::Left);
    }
    if has_signatures {
        table.add_column("signed", Align::Left);
    }
    for one in found {
        let (image, label) = (&one.image, &one.image.label);
        let date = image.date.map(|date| date.strftime("%F"));
        let date: &dyn std::fmt::Display = match &date {
            Some(date) => date,
            None => &"",
        };
        let title = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let (id, size) = (image.digest.id(), size(image.size));
        let mut cells: Vec<&dyn std::fmt::Display> =
            vec![&title, &label.system, &label.uarch, &id, &size, date];
        if let Some(packages) = &one.packages {
            cells.push(packages);
        }
        if let Some(signature) = &one.signature {
            cells.push(signature);
        }
        table.push_cells(&cells);
    }
    table
}

/// An image of a registry as programs see it; the names are those of `image ls`.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    namespace: &'a str,
    label: String,
    name: &'a str,
    version: &'a str,
    tag: &'a str,
    system: &'a str,
    uarch: &'a str,
    id: String,
    digest: &'a str,
    size: u64,
    date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<&'a FoundPackages>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a SignatureVerdict>,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(found: &'a FoundImage) -> Self {
        let image = &found.image;
        let label = &image.label;
        Self {
            namespace: image.namespace.as_str(),
            label: label.to_string(),
            name: label.name.as_str(),
            version: label.version.as_str(),
            tag: label.tag.as_str(),
            system: label.system.as_str(),
            uarch: label.uarch.as_str(),
            id: image.digest.id().to_string(),
            digest: image.digest.as_str(),
            size: image.size,
            date: image.date.map(|date| format!("{date:.0}")),
            packages: found.packages.as_ref(),
            signature: found.signature.as_ref(),
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<String> {
        Some(match key {
            "namespace" => self.namespace.to_owned(),
            "label" => self.label.clone(),
            "name" => self.name.to_owned(),
            "version" => self.version.to_owned(),
            "tag" => self.tag.to_owned(),
            "system" => self.system.to_owned(),
            "uarch" => self.uarch.to_owned(),
            "id" => self.id.clone(),
            "digest" | "sha256" => self.digest.to_owned(),
            "size" => self.size.to_string(),
            "date" => self.date.clone().unwrap_or_default(),
            "packages" => {
                let packages = self.packages.map(ToString::to_string);
                packages.unwrap_or_default()
            }
            "signed" => {
                let signature = self.signature.map(ToString::to_string);
                signature.unwrap_or_default()
            }
            _ => return None,
        })
    }
}
