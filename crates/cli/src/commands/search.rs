// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane search` and `cabane info`: images anywhere, by words and by packages.

use std::fmt::Display;

use cabane_image_search::{ImageAnywhere, PackageInImages, Scope, images_with, search as find};
use cabane_label::escape;
use cabane_report::Result;
use cabane_resolve::{HOW_TO_ADD_IMAGES, are_empty};
use clap::Args;
use serde_json::{Value, json};

use crate::pick::{PickArgs, pick, print_label};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// How many characters of a description are in the table.
const SHORT: usize = 60;

/// Where images are looked for.
#[derive(Debug, Args)]
struct ScopeArgs {
    /// Leave the registry out
    #[arg(long, conflicts_with = "registry")]
    local: bool,
    /// Ask the registry for each image, instead of its list
    #[arg(long)]
    refresh: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl ScopeArgs {
    fn scope(&self, has_all_systems: bool) -> Scope {
        let registry = self.registry.request();
        Scope { has_all_systems, registry, is_local: self.local, refresh: self.refresh }
    }
}

/// Search for images by words in their names, packages, and descriptions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane search hdf5 netcdf
  cabane search gromacs 2025
  cabane search 'hdf5@1.14:+mpi' python
  cabane search --system '*' cp2k

Searches the repositories and the configured registry. Each word must be part of an image's name,
description, or views, or of the name of a package in it. A number is the version of the image, or of
a package that another word names. Words with `@`, `+`, `~`, `%`, or `=` are packages, as Spack writes
them. The best matches are first.")]
pub(crate) struct SearchArgs {
    /// Parts of names and descriptions, versions, or packages
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    pick: PickArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Show which images have a package, in which versions, and on which systems
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane info hdf5
  cabane info 'hdf5@1.14:+mpi'
  cabane info numpy --json

Searches the images of all systems, in the repositories and in the configured registry. The newest
version is first. `--verbose` also shows variants.")]
pub(crate) struct InfoArgs {
    /// The package, as Spack writes it: `hdf5`, `hdf5@1.14:+mpi`, `hdf5%gcc@13`
    package: String,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn search(setup: &Setup, args: &SearchArgs) -> Result<()> {
    let picks = args.pick.is_wanted()?;
    let images = find(setup, &args.scope.scope(false), &args.words)?;
    if args.scope.json {
        let images: Vec<Value> = images.iter().map(image_in_json).collect();
        setup.printer.json(&images);
        return Ok(());
    }
    if picks {
        if let Some(image) = images.get(pick(&table(&images).without_head())?) {
            let label = image.label.to_string();
            print_label(setup, &label, how_to_start(image, &label, "it"));
        }
        return Ok(());
    }
    let has_registry = args.scope.registry.request().registry.is_some()
        || setup.settings.registry.address.value.is_some();
    if images.is_empty() && (args.scope.local || !has_registry) && are_empty(&setup.repositories()?)
    {
        setup.note("there are no images yet");
        setup.hint(HOW_TO_ADD_IMAGES);
    } else if images.is_empty() {
        setup.note("no image matches");
        if setup.settings.system.value.is_some() {
            setup.hint("`--system '*'` searches the images of all systems");
        }
    }
    setup.printer.data(table(&images));
    hint_at_start(setup, images.first());
    Ok(())
}

fn table(images: &[ImageAnywhere]) -> Table {
    let mut table = Table::new(&["uenv", "system", "uarch", "where", "has"]);
    for image in images {
        let label = &image.label;
        let (title, places) = (title(image), image.places.join(", "));
        let packages = image.packages.to_string();
        let has = if packages.is_empty() { short(image.description.as_deref()) } else { packages };
        table.push(&[&title, &label.system, &label.uarch, &places, &has]);
    }
    table
}

pub(crate) fn info(setup: &Setup, args: &InfoArgs) -> Result<()> {
    let found = images_with(setup, &args.scope.scope(true), &args.package)?;
    if args.scope.json {
        let found: Vec<Value> = found.iter().map(package_in_json).collect();
        setup.printer.json(&found);
        return Ok(());
    }
    let mut table = Table::new(&["package", "compiler", "uenv", "system", "uarch", "where"]);
    if setup.is_verbose() {
        table.add_column("variants");
    }
    for PackageInImages { package, images } in &found {
        let compilers = escape(&package.compilers.join(", ")).into_owned();
        let variants = escape(&package.variants).into_owned();
        let name = package.title();
        let package = escape(&name);
        for image in images {
            let label = &image.label;
            let (title, places) = (title(image), image.places.join(", "));
            let cells: [&dyn Display; 7] =
                [&package, &compilers, &title, &label.system, &label.uarch, &places, &variants];
            table.push(&cells);
        }
    }
    setup.printer.data(table);
    let here = setup.settings.system.value.as_ref();
    let fits = |image: &&ImageAnywhere| here.is_none_or(|here| image.label.system == *here);
    hint_at_start(setup, found.iter().flat_map(|one| &one.images).find(fits));
    Ok(())
}

fn title(image: &ImageAnywhere) -> String {
    let label = &image.label;
    format!("{}/{}:{}", label.name, label.version, label.tag)
}

fn short(text: Option<&str>) -> String {
    let line = text.and_then(|text| text.lines().next()).unwrap_or_default();
    let begin: String = line.chars().take(SHORT).collect();
    let rest = if begin.len() < line.len() { "…" } else { "" };
    format!("{}{rest}", escape(&begin))
}

fn hint_at_start(setup: &Setup, image: Option<&ImageAnywhere>) {
    let Some(image) = image else { return };
    setup.hint(how_to_start(image, &title(image), "the first one"));
}

fn how_to_start(image: &ImageAnywhere, label: &str, what: &str) -> String {
    if image.is_here() {
        format!("`cabane start {label}` starts {what}")
    } else {
        format!("`cabane image pull {label}` downloads {what}")
    }
}

fn image_in_json(image: &ImageAnywhere) -> Value {
    let label = &image.label;
    json!({
        "label": label.to_string(),
        "name": label.name,
        "version": label.version,
        "tag": label.tag,
        "system": label.system,
        "uarch": label.uarch,
        "digest": image.digest.to_string(),
        "places": image.places,
        "description": image.description,
        "packages": image.packages,
    })
}

fn package_in_json(found: &PackageInImages) -> Value {
    let images: Vec<Value> = found
        .images
        .iter()
        .map(|image| {
            let mut image = image_in_json(image);
            if let Some(object) = image.as_object_mut() {
                object.remove("packages");
            }
            image
        })
        .collect();
    json!({"package": found.package, "images": images})
}
