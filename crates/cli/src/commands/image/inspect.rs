// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image inspect`: everything about one image.

use std::fmt::Write as _;

use cabane_environment::{fill_in_metadata, find_image};
use cabane_label::{ImageDescription, escape};
use cabane_mount::verity::root_hash_beside;
use cabane_report::{Kind, Report, Result, size};
use cabane_repository::Record;
use cabane_resolve::{LocatedImage, NamedRepository};
use cabane_run::difference::{list_packages, read_package_list};
use cabane_run::open_image;
use cabane_signature_policy::KnownKeys;
use cabane_transfer::{find_kept, find_remote};
use cabane_view::{Change, Meta, OutsideNeed, PackageList, PackageRecord, View};
use clap::Args;
use serde_json::{Value, json as value};

use crate::format::{fill_lines, json};
use crate::printer::style;
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::shown_image::{KEYS, ShownImage};
use crate::table::Table;

/// Show the details of one image
#[derive(Debug, Args)]
#[command(after_help = "\
The keys of a template are name, version, tag, system, uarch, label, id, digest, size,
date, repository, path, sqfs, meta, mount, description, views, default_view, format.")]
pub(crate) struct InspectArgs {
    /// A label, an ID, a digest, a path, or a container image that `cabane run` has imported
    image: String,
    /// List its packages, and the system packages that it uses
    #[arg(long, conflicts_with = "format")]
    packages: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print one line from a template such as `{path} {mount}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    /// Inspect an image in the registry, without downloading it
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn inspect(setup: &Setup, args: &InspectArgs) -> Result<()> {
    let mut image: ImageDescription = args.image.parse()?;
    if let ImageDescription::Container(typed) = &image
        && !args.remote
        && let Some(kept) = find_kept(setup, typed)?
    {
        image = kept.label.to_string().parse()?;
    }
    if args.remote {
        return inspect_remote(setup, args, &image);
    }
    let is_path = matches!(image, ImageDescription::Path(_));
    let repositories = if is_path { Vec::new() } else { setup.repositories()? };
    let mut located = find_image(setup, &image)?;
    if args.packages {
        let file = open_image(&located.path, located.format)?;
        let list =
            list_packages(&file, located.metadata_directory().as_deref(), &setup.mount_methods())?;
        setup.printer.data(if args.json { json(&list) } else { package_table(&list) });
        return Ok(());
    }
    fill_in_metadata(setup, &mut located)?;
    let repository = repositories.iter().find(|one| Some(&one.name) == located.repository.as_ref());
    let records = match (repository, &located.digest) {
        (Some(repository), Some(digest)) => repository.repository.by_digest(digest)?,
        _ => Vec::new(),
    };
    let shown = show(repository, &records, &located);
    let labels: Vec<_> = records.iter().map(|record| record.label.to_string()).collect();
    if let Some(template) = &args.format {
        setup.printer.data(fill_lines(template, KEYS, [shown.fields()])?);
    } else {
        let file = open_image(&located.path, located.format)?;
        let directory = located.metadata_directory();
        let packages = read_package_list(&file, directory.as_deref(), &setup.mount_methods())?;
        let packages = packages.map(|list| list.count());
        let meta = located.meta.as_ref();
        setup.printer.data(if args.json {
            let mut all = everything(&shown, &labels, meta, packages);
            all["root_hash"] = value!(root_hash_beside(&located.path).map(|hash| hash.to_string()));
            json(&all)
        } else {
            let hash = root_hash_beside(&located.path);
            let hash = hash.map(|hash| hash.to_string()).unwrap_or_default();
            text(&shown, &labels, meta, packages, ("root hash", &hash))
        });
    }
    Ok(())
}

const ENV_JSON: &str = "env.json";

/// Shows an image of the registry, with its metadata there.
fn inspect_remote(setup: &Setup, args: &InspectArgs, description: &ImageDescription) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let images = find_remote(setup, &connection, &args.image, description)?;
    for image in &images {
        let files = connection.registry.fetch_meta_files(image, &[ENV_JSON, PackageList::FILE])?;
        let files = files.unwrap_or_default();
        if args.packages {
            let text = files.get(PackageList::FILE);
            let list = text.and_then(|text| PackageList::from_json(text).ok());
            let list = list.unwrap_or_else(|| PackageList::new(Vec::new()));
            setup.printer.data(if args.json { json(&list) } else { package_table(&list) });
            continue;
        }
        let meta = files.get(ENV_JSON).map(|bytes| Meta::from_json(bytes)).transpose();
        let meta = meta.map_err(|error| Report::new(Kind::BadInput, error))?;
        let shown = ShownImage::of_remote(image, meta.as_ref());
        let signatures = connection.registry.signatures(image)?;
        let signature = KnownKeys::of(setup, &image.place).judge(&signatures);
        if let Some(template) = &args.format {
            setup.printer.data(fill_lines(template, KEYS, [shown.fields()])?);
        } else if args.json {
            let labels = [image.place.label.to_string()];
            let mut all = everything(&shown, &labels, meta.as_ref(), None);
            all["signature"] = value!(signature);
            setup.printer.json(&all);
        } else {
            let signed = signature.with_verdict();
            setup.printer.data(text(&shown, &[], meta.as_ref(), None, ("signed", &signed)));
        }
    }
    Ok(())
}

/// Returns the image as its repository describes it.
fn show<'a>(
    repository: Option<&'a NamedRepository>,
    records: &'a [Record],
    located: &'a LocatedImage,
) -> ShownImage<'a> {
    let named = records.iter().find(|record| Some(&record.label) == located.label.as_ref());
    let (Some(repository), Some(record)) = (repository, named.or(records.first())) else {
        return ShownImage::of_file(located);
    };
    let mut shown = ShownImage::of_record(repository, record);
    if let Some(meta) = &located.meta {
        shown.complete(meta);
    }
    shown
}

fn everything(
    shown: &ShownImage<'_>,
    labels: &[String],
    meta: Option<&Meta>,
    packages: Option<(usize, usize)>,
) -> Value {
    let mut everything = value!(shown);
    if let Some((inside, of_system)) = packages {
        everything["packages"] = value!({"inside": inside, "of_system": of_system});
    }
    if let Some(meta) = meta {
        everything["labels"] = value!(labels);
        everything["metadata"] = serde_json::from_str(&meta.to_json()).unwrap_or_default();
    }
    everything
}

/// Writes what is known of an image, with a line of the caller after those about the file.
fn text(
    shown: &ShownImage<'_>,
    labels: &[String],
    meta: Option<&Meta>,
    packages: Option<(usize, usize)>,
    (name, value): (&str, &str),
) -> String {
    let fields = shown.fields();
    let of = |key: &str| escape(&fields.text(key).unwrap_or_default()).into_owned();
    let title = if of("label").is_empty() { of("sqfs") } else { of("label") };
    let mut text = format!("{accent}{title}{accent:#}\n", accent = style::ACCENT);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    };
    line("description", &of("description"));
    line("digest", &of("digest"));
    line("size", &of("size").parse().map(size).unwrap_or_default());
    line("format", &of("format"));
    line("date", &of("date"));
    line("file", &of("sqfs"));
    line("repository", &of("repository"));
    line(name, value);
    line("mount point", &of("mount"));
    for label in labels.iter().filter(|label| **label != title) {
        line("also", label);
    }
    let Some(meta) = meta else {
        line("metadata", "none");
        return text;
    };
    for base in &meta.bases {
        let (label, mount) = (escape(&base.label), &base.mount);
        line("built on", &format!("{label} at {mount}, {}", base.digest));
    }
    line("engine", meta.engine.as_deref().unwrap_or_default());
    line("packages", &packages.map(package_counts).unwrap_or_default());
    for need in meta.needs.texts() {
        line("needs", &escape(&need));
    }
    for outside in &meta.needs.outside {
        line("refers to", &refers_to(outside));
    }
    for (name, view) in &meta.views {
        let default = if meta.default_view.as_ref() == Some(name) { " (default)" } else { "" };
        let _ = writeln!(text, "  view {name}{default}");
        text += &changes(view);
    }
    text
}

fn package_counts((inside, of_system): (usize, usize)) -> String {
    match of_system {
        0 => inside.to_string(),
        _ => format!("{inside}, and {of_system} of the system"),
    }
}

fn refers_to(outside: &OutsideNeed) -> String {
    let path = outside.path.to_string_lossy();
    let text = match &outside.package {
        Some(package) => format!("{package} at {path}"),
        None => path.into_owned(),
    };
    escape(&text).into_owned()
}

fn changes(view: &View) -> String {
    let mut text = String::new();
    if let Some(description) = &view.description {
        let _ = writeln!(text, "    {}", escape(description));
    }
    for (variable, changes) in view.patch.iter() {
        for change in changes {
            let what = match change {
                Change::Set(value) => format!("set {variable}={value}"),
                Change::Unset => format!("unset {variable}"),
                Change::List { operation, values } => {
                    let verb = operation.as_str();
                    format!("{verb} {variable}={}", values.join(":"))
                }
            };
            let _ = writeln!(text, "    {}", escape(&what));
        }
    }
    text
}

/// How much of a hash is shown, as in Spack's own lists.
const SHORT: usize = 7;

/// Shows the packages, those that the recipe requests with a star; what belongs to the
/// system stands at the end.
fn package_table(list: &PackageList) -> String {
    let mut table =
        Table::new(&["", "package", "version", ">size", "hash", "compiler", "target", "variants"]);
    let (outside, inside): (Vec<_>, Vec<_>) = list.packages.iter().partition(|one| one.external);
    for package in inside.into_iter().chain(outside) {
        let hash = package.hash.as_deref().unwrap_or_default();
        let hash: String = hash.chars().take(SHORT).collect();
        table.push(&[
            &if package.explicit { "*" } else { "" },
            &escape(&package.name),
            &escape(&package.version),
            &place_or_size(package),
            &escape(&hash),
            &escape(&package.compilers.join(",")),
            &escape(package.target.as_deref().unwrap_or_default()),
            &escape(&package.variants),
        ]);
    }
    table.to_string()
}

/// What is not in the image has a place and no size.
fn place_or_size(package: &PackageRecord) -> String {
    match (&package.prefix, package.size) {
        (Some(prefix), None) if package.external => escape(prefix).into_owned(),
        (_, Some(bytes)) => size(bytes),
        _ => String::new(),
    }
}
