// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image find`: the images of a registry.

use std::fmt::Display;
use std::time::Duration;

use cabane_evidence::{Outcome, Tested, Wanted};
use cabane_image_search::{FoundImage, FoundImages, Packages, SearchRequest, TestedQuery};
use cabane_label::System;
use cabane_recipe::parse_time;
use cabane_report::{Result, size};
use cabane_signature_policy::SignatureVerdict;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::image::ls::{SearchArgs, image_table};
use crate::format::{Fields, fill_lines};
use crate::pick::{PickArgs, pick, print_label};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// List the images in a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Search by any part of a label: `cp2k`, `/24.11`, `:v1`, `%zen3`, optionally in a
namespace of the registry: `build::cp2k`. A name also matches longer names that begin
with it. If the name of this system is known, only its images are listed; `@*` lists
those of all systems.

Write packages as Spack specs: `hdf5`, `hdf5@1.14:`, `hdf5@1.12:1.14+mpi`,
`hdf5@=1.14.3 api=v110 target=zen3`, `hdf5%gcc@13`, `hdf5/abc123`. For a dependency, add
another `--package` instead of `^`.

`cabane image pull \"$(cabane image find --pick)\"` downloads an image that you choose from the list.

The keys of a template are namespace, name, version, tag, system, uarch, label,
id, digest, size, date, packages, signed.")]
#[expect(clippy::struct_excessive_bools, reason = "one for each option that has no value")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    search: SearchArgs,
    /// Show who signed each image; needs several requests for each
    #[arg(long)]
    signatures: bool,
    /// Show only images whose tests have this outcome: passed, failed, error, or not-tested; needs several
    /// requests for each image
    #[arg(long, value_name = "OUTCOME")]
    tested: Option<Outcome>,
    /// With --tested: the system on which they were tested; default: this system
    #[arg(long, value_name = "NAME", requires = "tested")]
    tested_on: Option<System>,
    /// With --tested: ignore results that are older, such as 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "tested")]
    since: Option<Duration>,
    /// Ask the registry for each image, instead of its list
    #[arg(long)]
    refresh: bool,
    /// Omit the table header
    #[arg(long)]
    no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "no_header"])]
    json: bool,
    /// Print one line for each image from a template such as `{name}/{version} {digest}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    #[command(flatten)]
    pick: PickArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn find(setup: &Setup, args: &FindArgs) -> Result<()> {
    let picks = args.pick.is_wanted()?;
    let request = SearchRequest {
        refresh: args.refresh,
        signatures: args.signatures,
        tested: args.tested.map(|outcome| TestedQuery {
            outcome,
            wanted: Wanted::here(setup, args.tested_on.as_ref(), args.since, Timestamp::now()),
        }),
        ..args.search.request()
    };
    let found = cabane_image_search::find(setup, &args.registry.request(), &request)?;
    if picks {
        let row = pick(&table(&found, false))?;
        if let Some(found) = found.iter().nth(row) {
            let label = args.search.as_typed(found.image);
            print_label(setup, &label, format_args!("`cabane image pull {label}` downloads it"));
        }
    } else if args.json {
        setup.printer.json(&Each(&found));
    } else if let Some(template) = &args.format {
        let fields = found.iter().map(|image| Shown::of(image).fields());
        setup.printer.data(fill_lines(template, KEYS, fields)?);
    } else {
        if found.images.is_empty() {
            setup.note("no image matches");
        }
        setup.printer.data(table(&found, !args.no_header));
    }
    // The process ends here, and its memory with it.
    std::mem::forget(found);
    Ok(())
}

/// The keys of a template.
const KEYS: &str = "\
    namespace, name, version, tag, system, uarch, label, id, digest, sha256, size, date, \
    packages, signed";

fn table(found: &FoundImages, has_head: bool) -> Table {
    let mut table = image_table(has_head);
    if found.packages.is_some() {
        table.add_column("packages");
    }
    if found.signatures.is_some() {
        table.add_column("signed");
    }
    if found.tested.is_some() {
        table.add_column("tested");
    }
    table.reserve(found.images.len());
    for one in found.iter() {
        let (image, label) = (one.image, &one.image.label);
        let date = image.date.map(|date| date.to_zoned(TimeZone::UTC).date());
        let date: &dyn Display = date.as_ref().map_or(&"", |date| date);
        let title = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let (id, size) = (image.digest.id(), size(image.size));
        let mut cells: Vec<&dyn Display> =
            vec![&title, &label.system, &label.uarch, &id, &size, date];
        cells.extend(one.packages.map(|found| found as &dyn Display));
        cells.extend(one.signature.map(|verdict| verdict as &dyn Display));
        cells.extend(one.tested.map(|tested| &tested.evidence as &dyn Display));
        table.push(&cells);
    }
    table
}

/// The images as programs see them, one after the other.
struct Each<'a>(&'a FoundImages);

impl Serialize for Each<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Shown::of))
    }
}

/// An image of a registry as programs see it; the names are those of `image ls`.
#[derive(Serialize)]
struct Shown<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    tested: Option<&'a Tested>,
}

impl<'a> Shown<'a> {
    fn of(found: FoundImage<'a>) -> Self {
        let image = found.image;
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
            packages: found.packages,
            signature: found.signature,
            tested: found.tested,
        }
    }

    /// Returns the values of the keys of a template.
    fn fields(&self) -> Fields {
        let mut fields = Fields::of(self);
        fields.set("sha256", Some(self.digest.to_owned()));
        fields.set("packages", self.packages.map(ToString::to_string));
        fields.set("signed", self.signature.map(ToString::to_string));
        fields
    }
}
