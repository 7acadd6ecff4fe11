// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image inspect`: everything about one image.

use std::fmt::Write as _;

use cabane_label::{ImageDescription, escape};
use cabane_resolve::{LocatedImage, NamedRepository};
use cabane_view::{Change, ListOperation, Meta, View};
use clap::Args;
use serde_json::{Value, json as value};

use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::format::{fill, json};
use crate::images::{fill_in_metadata, find_image};
use crate::printer::style;
use crate::report::CommandResult;
use crate::setup::Setup;
use crate::shown_image::{KEYS, ShownImage};
use crate::table::size;

/// Tell everything about one image
#[derive(Debug, Args)]
#[command(after_help = "\
The keys of a template are name, version, tag, system, uarch, label, id, digest, size,
date, repository, path, sqfs, meta, mount, description, views, default_view, format.")]
pub(crate) struct InspectArgs {
    /// A label, an id, a digest or a path
    image: String,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print a line from a template such as `{path} {mount}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
}

pub(super) fn inspect(setup: &Setup, args: &InspectArgs) -> CommandResult<ExitCode> {
    let image: ImageDescription = args.image.parse().map_err(convert::parse_error)?;
    let is_path = matches!(image, ImageDescription::Path(_));
    let repositories = if is_path {
        Vec::new()
    } else {
        setup.repositories()?
    };
    let mut located = find_image(setup, &image)?;
    fill_in_metadata(setup, &mut located)?;
    let (shown, labels) = show(&repositories, &located)?;
    if let Some(template) = &args.format {
        let line = fill(template, KEYS, |key| shown.value(key))?;
        setup.printer.data(format_args!("{line}\n"));
    } else if args.json {
        setup
            .printer
            .data(json(&everything(&shown, &labels, located.meta.as_ref())));
    } else {
        setup
            .printer
            .data(text(&shown, &labels, located.meta.as_ref()));
    }
    Ok(exit_codes::SUCCESS)
}

/// What the repository says about the image, and all its labels there.
fn show(
    repositories: &[NamedRepository],
    located: &LocatedImage,
) -> CommandResult<(ShownImage, Vec<String>)> {
    let holder = repositories
        .iter()
        .find(|one| Some(&one.name) == located.repository.as_ref());
    let (Some(holder), Some(digest)) = (holder, &located.digest) else {
        return Ok((ShownImage::of_file(located), Vec::new()));
    };
    let records = holder
        .repository
        .by_digest(digest)
        .map_err(convert::repository_error)?;
    let labels = records
        .iter()
        .map(|record| record.label.to_string())
        .collect();
    let record = records
        .iter()
        .find(|record| Some(&record.label) == located.label.as_ref())
        .or(records.first());
    let shown = record.map_or_else(
        || ShownImage::of_file(located),
        |record| ShownImage::of_record(holder, record),
    );
    Ok((shown, labels))
}

fn everything(shown: &ShownImage, labels: &[String], meta: Option<&Meta>) -> Value {
    let mut everything = value!(shown);
    if let (Some(object), Some(meta)) = (everything.as_object_mut(), meta) {
        let metadata = serde_json::from_str::<Value>(&meta.to_json()).unwrap_or_default();
        object.insert("labels".to_owned(), value!(labels));
        object.insert("metadata".to_owned(), metadata);
    }
    everything
}

fn text(shown: &ShownImage, labels: &[String], meta: Option<&Meta>) -> String {
    let of = |key: &str| escape(&shown.value(key).unwrap_or_default()).into_owned();
    let title = if of("label").is_empty() {
        of("sqfs")
    } else {
        of("label")
    };
    let mut text = format!("{}{title}{:#}\n", style::ACCENT, style::ACCENT);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    };
    line("description", &of("description"));
    line("digest", &of("digest"));
    line(
        "size",
        &shown
            .value("size")
            .and_then(|text| text.parse().ok())
            .map(size)
            .unwrap_or_default(),
    );
    line("format", &of("format"));
    line("date", &of("date"));
    line("file", &of("sqfs"));
    line("repository", &of("repository"));
    line("mount point", &of("mount"));
    for label in labels.iter().filter(|label| **label != title) {
        line("also", label);
    }
    let Some(meta) = meta else {
        line("metadata", "none");
        return text;
    };
    line("engine", meta.engine.as_deref().unwrap_or_default());
    if let Some(need) = &meta.needs.interpreter {
        line(
            "needs",
            &format!("Python {} at {}", need.version, need.path.display()),
        );
    }
    for (name, view) in &meta.views {
        let default = if meta.default_view.as_ref() == Some(name) {
            " (default)"
        } else {
            ""
        };
        let _ = writeln!(text, "  view {name}{default}");
        text += &changes(view);
    }
    text
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
                    let verb = match operation {
                        ListOperation::Set => "set",
                        ListOperation::Prepend => "prepend",
                        ListOperation::Append => "append",
                        ListOperation::Unset => "unset",
                    };
                    format!("{verb} {variable}={}", values.join(":"))
                }
            };
            let _ = writeln!(text, "    {}", escape(&what));
        }
    }
    text
}
