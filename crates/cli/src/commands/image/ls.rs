// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image ls`: the images of the repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use cabane_label::{ImageDescription, Label, LabelPattern, NameMatch};
use cabane_repository::{Error, Record, Repository};
use cabane_resolve::NamedRepository;
use clap::Args;

use crate::exit_codes::{self, ExitCode};
use crate::format::{fill, json};
use crate::packages::{PackageArgs, PackageSearch, PackagesFound};
use crate::report::CommandResult;
use crate::setup::Setup;
use crate::shown_image::{KEYS, ShownImage};
use crate::table::{Align, Table};
use cabane_report::size;
use cabane_run::difference::lines_beside;

/// List images
#[derive(Debug, Args)]
#[command(after_help = "\
Search by any part of a label: `cp2k`, `/24.11`, `:v1`, `%zen3`. A name also matches
longer names that begin with it. If the name of this system is known, only its images
are listed; `@*` lists those of all systems.

Write packages as Spack specs: `hdf5`, `hdf5@1.14:+mpi`, `hdf5%gcc@13`.")]
pub(crate) struct LsArgs {
    /// A label with parts left out, an ID, or a digest
    pattern: Option<String>,
    /// Match only the exact name, not longer names that begin with it
    #[arg(long)]
    no_partials: bool,
    #[command(flatten)]
    packages: PackageArgs,
    /// Omit the table header
    #[arg(long)]
    no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "no_header"])]
    json: bool,
    /// Print one line for each image from a template such as `{name}/{version} {digest}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> CommandResult<ExitCode> {
    let wanted = Wanted::read(setup, args)?;
    let search = PackageSearch::new(setup, args.packages.read()?, "repositories");
    let repositories = setup.repositories()?;
    let mut found = Vec::new();
    for repository in &repositories {
        let records = wanted.records(&repository.repository)?;
        found.push((repository, records));
    }
    let packages = search.map(|search| with_packages(setup, search, &mut found));
    let packages = packages.as_ref();
    if args.json {
        let images: Vec<_> = shown(&found, packages).collect();
        setup.printer.data(json(&images));
    } else if let Some(template) = &args.format {
        let mut lines = String::new();
        for image in shown(&found, packages) {
            lines += &fill(template, KEYS, |key| image.value(key))?;
            lines.push('\n');
        }
        setup.printer.data(lines);
    } else {
        print_tables(setup, &found, packages, !args.no_header);
    }
    // The process ends here, and its memory with it.
    std::mem::forget(found);
    Ok(exit_codes::SUCCESS)
}

type Found<'a> = Vec<(&'a NamedRepository, Vec<Record>)>;

/// Keeps the images that have the packages; their metadata are read if they are not known yet.
fn with_packages(setup: &Setup, mut search: PackageSearch, found: &mut Found<'_>) -> PackagesFound {
    let mut said = BTreeMap::new();
    for (repository, records) in found.iter() {
        for record in records {
            let digest = &record.digest;
            // What says nothing is asked again: it is near.
            if search.is_missing(digest, true) && !said.contains_key(digest) {
                let meta = repository.repository.meta_path(digest);
                said.insert(digest.clone(), lines_beside(&meta));
            }
        }
    }
    // Those that still say nothing need not be written again.
    said.retain(|digest, lines| lines.is_some() || search.is_missing(digest, false));
    let all = found.iter().flat_map(|(_, records)| records);
    let all: BTreeSet<_> = all.map(|record| &record.digest).collect();
    search.learn(&said.into_iter().collect::<Vec<_>>(), &all);
    let records = found.iter().flat_map(|(_, records)| records);
    let packages = search.look_for(setup, records.map(|one| (&one.label, &one.digest)));
    for (_, records) in found {
        records.retain(|record| packages.contains_key(&record.digest));
    }
    packages
}

/// Which records are listed.
struct Wanted {
    description: Option<ImageDescription>,
    how: NameMatch,
    system: Option<cabane_label::System>,
}

impl Wanted {
    fn read(setup: &Setup, args: &LsArgs) -> CommandResult<Self> {
        let description = match args.pattern.as_deref() {
            // Where an image is run this would be a path; a list has no use for one.
            Some(text) if text.starts_with('/') => {
                let pattern: LabelPattern = text.parse()?;
                Some(ImageDescription::Pattern(pattern))
            }
            Some(text) => Some(text.parse()?),
            None => None,
        };
        let how = if args.no_partials {
            NameMatch::Exact
        } else {
            NameMatch::Prefix
        };
        Ok(Self {
            description,
            how,
            system: setup.system(),
        })
    }

    fn records(&self, repository: &Repository) -> Result<Vec<Record>, Error> {
        match &self.description {
            Some(ImageDescription::Pattern(pattern)) => {
                let limit = pattern.system.is_none();
                let mut records = repository.find(pattern, self.how)?;
                records.retain(|record| !limit || self.is_of_this_system(&record.label));
                Ok(records)
            }
            Some(ImageDescription::Id(id)) => repository.by_id(id),
            Some(ImageDescription::Digest(digest)) => repository.by_digest(digest),
            Some(ImageDescription::Path(_)) => Ok(Vec::new()),
            None => {
                let mut records = repository.records()?;
                records.retain(|record| self.is_of_this_system(&record.label));
                Ok(records)
            }
        }
    }

    fn is_of_this_system(&self, label: &Label) -> bool {
        self.system
            .as_ref()
            .is_none_or(|system| label.system == *system)
    }
}

fn shown<'a>(
    found: &'a [(&NamedRepository, Vec<Record>)],
    packages: Option<&'a PackagesFound>,
) -> impl Iterator<Item = ShownImage> + 'a {
    found.iter().flat_map(move |(repository, records)| {
        records.iter().map(move |record| {
            let mut image = ShownImage::of_record(repository, record);
            let packages = packages.and_then(|packages| packages.get(&record.digest));
            image.set_packages(packages);
            image
        })
    })
}

fn print_tables(
    setup: &Setup,
    found: &[(&NamedRepository, Vec<Record>)],
    packages: Option<&PackagesFound>,
    has_head: bool,
) {
    let several = found
        .iter()
        .filter(|(_, records)| !records.is_empty())
        .count()
        > 1;
    let mut text = String::new();
    for (repository, records) in found.iter().filter(|(_, records)| !records.is_empty()) {
        if several && has_head {
            text += &format!(
                "{} ({})\n",
                repository.name,
                repository.repository.path().display()
            );
        }
        text += &table(records, packages, has_head).to_string();
    }
    if text.is_empty() {
        setup.printer.note("no image matches");
    }
    setup.printer.data(text);
}

/// Begins a table of images, in a repository or in a registry.
pub(crate) fn image_table(has_head: bool) -> Table {
    let columns = [
        ("uenv", Align::Left),
        ("system", Align::Left),
        ("uarch", Align::Left),
        ("id", Align::Left),
        ("size", Align::Right),
        ("date", Align::Left),
    ];
    Table::new(&columns, has_head)
}

fn table(records: &[Record], packages: Option<&PackagesFound>, has_head: bool) -> Table {
    let mut table = image_table(has_head);
    if packages.is_some() {
        table.add_column("packages", Align::Left);
    }
    for record in records {
        let label = &record.label;
        let title = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let (id, size) = (record.digest.id(), size(record.size));
        let date = record.date.strftime("%F");
        let packages = packages.and_then(|packages| packages.get(&record.digest));
        let packages: &dyn Display = match packages {
            Some(packages) => packages,
            None => &"",
        };
        // The last cell is left out where there is no column for it.
        table.push_cells(&[
            &title,
            &label.system,
            &label.uarch,
            &id,
            &size,
            &date,
            packages,
        ]);
    }
    table
}
