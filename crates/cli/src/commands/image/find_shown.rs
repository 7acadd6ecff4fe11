// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How the images of a registry are shown.

use cabane_image_search::{FoundImage, Packages};
use cabane_report::size;
use cabane_signature_policy::SignatureVerdict;
use serde::Serialize;

use crate::commands::image::ls::image_table;
use crate::format::Fields;
use crate::table::Table;

/// The keys of a template.
pub(crate) const KEYS: &str = "\
    namespace, name, version, tag, system, uarch, label, id, digest, sha256, size, date, \
    packages, signed";

pub(crate) fn table(found: &[FoundImage], has_head: bool) -> Table {
    let mut table = image_table(has_head);
    let (has_packages, has_signatures) = found
        .first()
        .map_or((false, false), |one| (one.packages.is_some(), one.signature.is_some()));
    if has_packages {
        table.add_column("packages");
    }
    if has_signatures {
        table.add_column("signed");
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
    packages: Option<&'a Packages>,
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

    /// Returns the values of the keys of a template.
    pub(crate) fn fields(&self) -> Fields {
        let mut fields = Fields::of(self);
        fields.copy("digest", "sha256");
        fields.set("packages", self.packages.map(ToString::to_string));
        fields.set("signed", self.signature.map(ToString::to_string));
        fields
    }
}
