// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image ls`: the images of the repositories.

use std::fmt::Display;
use std::slice::from_ref;

use cabane_image_search::{Images, SearchRequest, list};
use cabane_registry::Listed;
use cabane_report::{Result, size};
use cabane_repository::Record;
use cabane_resolve::{HOW_TO_ADD_IMAGES, NamedRepository, are_empty};
use clap::Args;
use serde::{Serialize, Serializer};

use crate::format::fill_lines;
use crate::pick::{PickArgs, pick, print_label};
use crate::setup::Setup;
use crate::shown_image::{KEYS, ShownImage};
use crate::table::Table;

/// List images
#[derive(Debug, Args)]
#[command(after_help = "\
Search by any part of a label: `cp2k`, `/24.11`, `:v1`, `%zen3`. A name also matches
longer names that begin with it. If the name of this system is known, only its images
are listed; `@*` lists those of all systems.

Write packages as Spack specs: `hdf5`, `hdf5@1.14:+mpi`, `hdf5%gcc@13`.

`cabane start \"$(cabane image ls --pick)\"` starts an image that you choose from the list.")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    search: SearchArgs,
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
}

/// What is searched for.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// A label with parts left out, an ID, or a digest
    pattern: Option<String>,
    /// Match only the exact name, not longer names that begin with it
    #[arg(long)]
    no_partials: bool,
    /// List only images with this package: `hdf5@1.14: +mpi`; repeatable
    #[arg(long = "package", value_name = "SPEC")]
    packages: Vec<String>,
}

impl SearchArgs {
    /// Returns how to name an image of a registry: with its namespace where one was searched.
    pub(crate) fn as_typed(&self, image: &Listed) -> String {
        let names_namespace = self.pattern.as_ref().is_some_and(|typed| typed.contains("::"));
        let label = &image.label;
        if names_namespace { format!("{}::{label}", image.namespace) } else { label.to_string() }
    }

    /// Returns what was typed.
    pub(crate) fn request(&self) -> SearchRequest {
        SearchRequest {
            pattern: self.pattern.clone(),
            exact: self.no_partials,
            packages: self.packages.clone(),
            ..SearchRequest::default()
        }
    }
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let picks = args.pick.is_wanted()?;
    let images = list(setup, &args.search.request())?;
    if picks {
        let records = || images.repositories.iter().flat_map(|(_, records)| records);
        let row = pick(&table(&images, None, records(), false))?;
        if let Some(record) = records().nth(row) {
            let label = record.label.to_string();
            print_label(setup, &label, format_args!("`cabane start {label}` starts it"));
        }
    } else if args.json {
        setup.printer.json(&Shown(&images));
    } else if let Some(template) = &args.format {
        let fields = shown(&images).map(|image| image.fields());
        setup.printer.data(fill_lines(template, KEYS, fields)?);
    } else {
        let is_search = args.search.pattern.is_some() || !args.search.packages.is_empty();
        print_tables(setup, &images, !args.no_header, is_search);
    }
    // The process ends here, and its memory with it.
    std::mem::forget(images);
    Ok(())
}

fn shown(images: &Images) -> impl Iterator<Item = ShownImage<'_>> {
    images.repositories.iter().flat_map(move |(repository, records)| {
        let has_packs = repository.repository.has_packs();
        records.iter().map(move |record| {
            let mut shown = ShownImage::of_record(repository, record);
            shown.deduplicated = has_packs && repository.repository.is_deduplicated(&record.digest);
            shown.packages = images.packages(&record.digest);
            shown
        })
    })
}

/// The list in JSON. Each image is shown when it is written: no copy of all of them is held.
struct Shown<'a>(&'a Images);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(shown(self.0))
    }
}

fn print_tables(setup: &Setup, images: &Images, has_head: bool, is_search: bool) {
    let repositories = images.repositories.iter();
    let found: Vec<_> = repositories.filter(|(_, records)| !records.is_empty()).collect();
    if found.is_empty() {
        let are_empty = images.repositories.iter().all(|(one, _)| are_empty(from_ref(one)));
        if are_empty {
            setup.note("there are no images yet");
            setup.hint(HOW_TO_ADD_IMAGES);
        } else {
            setup.note("no image matches");
            if !is_search {
                setup.hint("`cabane image ls '@*'` shows the images of all systems");
            }
        }
    }
    let mut text = String::new();
    for (repository, records) in &found {
        if found.len() > 1 && has_head {
            let path = repository.repository.path();
            text += &format!("{} ({})\n", repository.name, path.display());
        }
        text += &table(images, Some(repository), records, has_head).to_string();
    }
    setup.printer.data(text);
}

/// Begins a table of images, in a repository or in a registry.
pub(crate) fn image_table(has_head: bool) -> Table {
    let table = Table::new(&["uenv", "system", "uarch", "id", ">size", "date"]);
    if has_head { table } else { table.without_head() }
}

fn table<'a>(
    images: &Images,
    repository: Option<&NamedRepository>,
    records: impl IntoIterator<Item = &'a Record>,
    has_head: bool,
) -> Table {
    let mut table = image_table(has_head);
    let with_packs = repository.filter(|one| one.repository.has_packs());
    if with_packs.is_some() {
        table.add_column("stored");
    }
    if images.have_packages() {
        table.add_column("packages");
    }
    for record in records {
        let label = &record.label;
        let title = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let (id, size) = (record.digest.id(), size(record.size));
        let date = record.date.strftime("%F");
        let packages = images.packages(&record.digest);
        let packages = packages.map_or(&"" as &dyn Display, |found| found);
        let is_deduplicated =
            with_packs.is_some_and(|one| one.repository.is_deduplicated(&record.digest));
        let stored = if is_deduplicated { "deduplicated" } else { "file" };
        let mut cells: Vec<&dyn Display> =
            vec![&title, &label.system, &label.uarch, &id, &size, &date];
        if with_packs.is_some() {
            cells.push(&stored);
        }
        // The last cell is left out where there is no column for it.
        cells.push(packages);
        table.push(&cells);
    }
    table
}
