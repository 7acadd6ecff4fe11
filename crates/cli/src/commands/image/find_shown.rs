// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How the images of a registry are shown.

use std::fmt::Display;

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
    let first = found.first();
    if first.is_some_and(|one| one.packages.is_some()) {
        table.add_column("packages");
    }
    if first.is_some_and(|one| one.signature.is_some()) {
        table.add_column("signed");
    }
    for one in found {
        let (image, label) = (&one.image, &one.image.label);
        let date = image.date.map(|date| date.strftime("%F"));
        let date = date.as_ref().map_or(&"" as &dyn Display, |date| date);
        let title = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let (id, size) = (image.digest.id(), size(image.size));
        let mut cells: Vec<&dyn Display> =
            vec![&title, &label.system, &label.uarch, &id, &size, date];
        cells.extend(one.packages.as_ref().map(|found| found as &dyn Display));
        cells.extend(one.signature.as_ref().map(|verdict| verdict as &dyn Display));
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
