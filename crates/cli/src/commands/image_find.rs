// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image find`: the images of a registry.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use cabane_label::{ImageDescription, LabelPattern, NameMatch, Namespace, SystemPattern};
use cabane_registry::{Listed, Wanted};
use clap::Args;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use super::image_ls::image_table;
use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::format::{fill, json};
use crate::registry::{Connection, RegistryArgs};
use crate::report::CommandResult;
use crate::setup::Setup;
use crate::table::{Table, size};

/// List the images of a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Any part of a label may be given: `cp2k`, `/24.11`, `:v1`, `%zen3`, and before it a part
of the registry: `build::cp2k`. A name also finds longer names that begin with it. Only
images of this system are listed, where its name is known; `@*` lists those of all
systems. Answers are kept for a minute.

The keys of a template are namespace, name, version, tag, system, uarch, label, id,
digest, size, date.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each option that has no value"
)]
pub(crate) struct FindArgs {
    /// What to list: a label with parts left out, an id or a digest
    pattern: Option<String>,
    /// Find only this very name, not longer names that begin with it
    #[arg(long)]
    no_partials: bool,
    /// Ask the registry, also if it was asked a moment ago
    #[arg(long)]
    refresh: bool,
    /// Leave out the head of the table
    #[arg(long)]
    no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "no_header"])]
    json: bool,
    /// Print a line for each image from a template such as `{name}/{version} {digest}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

const KEYS: &[&str] = &[
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
];

pub(super) fn find(setup: &Setup, args: &FindArgs) -> CommandResult<ExitCode> {
    let description = args.pattern.as_deref().map(read_description).transpose()?;
    let connection = args.registry.connect(setup)?;
    let how = if args.no_partials {
        NameMatch::Exact
    } else {
        NameMatch::Prefix
    };
    let found = look_up(setup, &connection, description.as_ref(), how, args.refresh)?;
    if args.json {
        let shown: Vec<_> = found.iter().map(Shown::of).collect();
        setup.printer.data(json(&shown));
    } else if let Some(template) = &args.format {
        let mut lines = String::new();
        for image in &found {
            lines += &fill(template, KEYS, |key| Shown::of(image).value(key))?;
            lines.push('\n');
        }
        setup.printer.data(lines);
    } else {
        if found.is_empty() {
            setup.printer.note("no image matches");
        }
        setup.printer.data(table(&found, !args.no_header));
    }
    Ok(exit_codes::SUCCESS)
}

fn read_description(text: &str) -> CommandResult<ImageDescription> {
    // Where an image is run this would be a path; a registry has none.
    if text.starts_with('/') {
        let pattern: LabelPattern = text.parse().map_err(convert::parse_error)?;
        return Ok(ImageDescription::Pattern(pattern));
    }
    text.parse().map_err(convert::parse_error)
}

/// Finds what was typed, among the images of this system unless another is named.
pub(super) fn look_up(
    setup: &Setup,
    connection: &Connection,
    description: Option<&ImageDescription>,
    how: NameMatch,
    refresh: bool,
) -> CommandResult<Vec<Listed>> {
    let typed = match description {
        Some(ImageDescription::Pattern(pattern)) => Some(pattern),
        _ => None,
    };
    let by_digest = matches!(
        description,
        Some(ImageDescription::Id(_) | ImageDescription::Digest(_))
    );
    let namespace = connection.namespace_of(typed);
    let mut pattern = typed.cloned().unwrap_or_default();
    // A digest is meant wherever it is.
    if pattern.system.is_none() && !by_digest {
        pattern.system = setup.system().map(SystemPattern::Is);
    }
    let mut found = listing(setup, connection, &namespace, &pattern, how, refresh)?;
    match description {
        Some(ImageDescription::Id(id)) => found.retain(|image| image.digest.id() == *id),
        Some(ImageDescription::Digest(digest)) => found.retain(|image| image.digest == *digest),
        _ => {}
    }
    Ok(found)
}

/// How long an answer counts.
const FRESH_SECONDS: i64 = 60;

/// What was asked, and the answer.
#[derive(Serialize, Deserialize)]
struct Kept {
    question: String,
    asked: Timestamp,
    images: Vec<Listed>,
}

fn listing(
    setup: &Setup,
    connection: &Connection,
    namespace: &Namespace,
    pattern: &LabelPattern,
    how: NameMatch,
    refresh: bool,
) -> CommandResult<Vec<Listed>> {
    let is_exact = how == NameMatch::Exact;
    let question = format!(
        "{} {namespace} {pattern} {is_exact} {:?}",
        connection.registry.address(),
        setup.settings.registry.listing.value
    );
    let path = kept_path(setup, &question);
    if let Some(kept) = path
        .as_ref()
        .filter(|_| !refresh)
        .and_then(|path| read_kept(path))
    {
        let end = kept.asked.checked_add(FRESH_SECONDS.seconds());
        let now = Timestamp::now();
        let is_fresh = kept.asked <= now && end.is_ok_and(|end| now < end);
        if kept.question == question && is_fresh {
            return Ok(kept.images);
        }
    }
    let wanted = Wanted {
        namespace,
        pattern: Some(pattern),
        how,
    };
    let found = connection
        .registry
        .find(&wanted, setup.settings.registry.listing.value);
    let images = found.map_err(convert::registry_error)?;
    let kept = Kept {
        question,
        asked: Timestamp::now(),
        images,
    };
    if let Some(path) = path {
        keep(&path, &kept);
    }
    Ok(kept.images)
}

/// Returns where the answer to a question is kept.
fn kept_path(setup: &Setup, question: &str) -> Option<PathBuf> {
    let cache = setup.settings.cache_directory.value.as_deref()?;
    let name = cabane_registry::sum::bytes(question.as_bytes()).id();
    Some(cache.join("registry").join(format!("{name}.json")))
}

fn read_kept(path: &std::path::Path) -> Option<Kept> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Keeps an answer; where that cannot be the registry is asked again.
fn keep(path: &std::path::Path, kept: &Kept) {
    let Some(directory) = path.parent() else {
        return;
    };
    let _ = fs::create_dir_all(directory);
    if let Ok(mut file) = tempfile::NamedTempFile::new_in(directory) {
        let bytes = serde_json::to_vec(kept).unwrap_or_default();
        if file.write_all(&bytes).is_ok() {
            let _ = file.persist(path);
        }
    }
}

/// Forgets all answers: something has changed in a registry.
pub(super) fn forget_answers(setup: &Setup) {
    if let Some(cache) = setup.settings.cache_directory.value.as_deref() {
        let entries = fs::read_dir(cache.join("registry")).into_iter().flatten();
        for entry in entries.flatten() {
            if entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "json")
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn table(found: &[Listed], has_head: bool) -> Table {
    let mut table = image_table(has_head);
    for image in found {
        let label = &image.label;
        let date = image.date.map(|date| date.strftime("%F").to_string());
        table.push([
            &format_args!("{}/{}:{}", label.name, label.version, label.tag),
            &label.system,
            &label.uarch,
            &image.digest.id(),
            &size(image.size),
            &date.unwrap_or_default(),
        ]);
    }
    table
}

/// An image of a registry as programs see it; the names are those of `image ls`.
#[derive(Serialize)]
struct Shown {
    namespace: String,
    label: String,
    name: String,
    version: String,
    tag: String,
    system: String,
    uarch: String,
    id: String,
    digest: String,
    size: u64,
    date: Option<String>,
}

impl Shown {
    fn of(image: &Listed) -> Self {
        let label = &image.label;
        Self {
            namespace: image.namespace.to_string(),
            label: label.to_string(),
            name: label.name.to_string(),
            version: label.version.to_string(),
            tag: label.tag.to_string(),
            system: label.system.to_string(),
            uarch: label.uarch.to_string(),
            id: image.digest.id().to_string(),
            digest: image.digest.to_string(),
            size: image.size,
            date: image.date.map(|date| format!("{date:.0}")),
        }
    }

    fn value(&self, key: &str) -> Option<String> {
        Some(match key {
            "namespace" => self.namespace.clone(),
            "label" => self.label.clone(),
            "name" => self.name.clone(),
            "version" => self.version.clone(),
            "tag" => self.tag.clone(),
            "system" => self.system.clone(),
            "uarch" => self.uarch.clone(),
            "id" => self.id.clone(),
            "digest" | "sha256" => self.digest.clone(),
            "size" => self.size.to_string(),
            "date" => self.date.clone().unwrap_or_default(),
            _ => return None,
        })
    }
}
