// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane config`: the settings in effect.

use std::time::Duration;

use cabane_recipe::{AtStart, PathTemplate, Requirement, RetentionSettings};
use clap::Args;
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::CommandResult;
use crate::setup::Setup;
use crate::table::{Align, Table};
use cabane_site::settings::{Effective, Origin, processors};

/// Show the configuration in effect and the source of each value
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    key: String,
    value: String,
    origin: String,
}

pub(crate) fn config(setup: &Setup, args: &ConfigArgs) -> CommandResult<ExitCode> {
    let rows = rows(&setup.settings);
    if args.json {
        setup.printer.data(json(&rows));
        return Ok(exit_codes::SUCCESS);
    }
    let mut table = Table::new(
        &[
            ("key", Align::Left),
            ("value", Align::Left),
            ("from", Align::Left),
        ],
        true,
    );
    for row in rows {
        table.push([&row.key, &row.value, &row.origin]);
    }
    setup.printer.data(table);
    Ok(exit_codes::SUCCESS)
}

fn rows(settings: &Effective) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut push = |key: &str, value: String, origin: &Origin| {
        rows.push(Row {
            key: key.to_owned(),
            value,
            origin: origin.to_string(),
        });
    };
    let path = |path: &std::path::Path| path.display().to_string();
    let directory = |found: &Option<std::path::PathBuf>| match found {
        Some(found) => path(found),
        None => "none: HOME is not set".to_owned(),
    };
    let system = settings
        .system
        .value
        .as_ref()
        .map_or("*".to_owned(), ToString::to_string);
    let color = format!("{:?}", settings.color.value).to_lowercase();
    let backend = settings.backend.value.to_string();
    let uv = settings
        .uv
        .value
        .as_deref()
        .map_or("the first in PATH".to_owned(), path);
    push("color", color, &settings.color.origin);
    push("system_name", system, &settings.system.origin);
    push(
        "default_uarch",
        settings.uarch.value.to_string(),
        &settings.uarch.origin,
    );
    push("backend", backend, &settings.backend.origin);
    push(
        "build.cache",
        directory(&settings.cache_directory.value),
        &settings.cache_directory.origin,
    );
    push(
        "build.directory",
        directory(&settings.build_directory.value),
        &settings.build_directory.origin,
    );
    push(
        "build.memory",
        path(&settings.memory_directory.value),
        &settings.memory_directory.origin,
    );
    push(
        "build.format",
        format!("{:?}", settings.image_format.value).to_lowercase(),
        &settings.image_format.origin,
    );
    push(
        "build.jobs",
        settings.jobs.value.unwrap_or_else(processors).to_string(),
        &settings.jobs.origin,
    );
    let python = settings.spack_python.value.as_deref();
    push(
        "build.spack_python",
        python.map_or("made when it is needed".to_owned(), path),
        &settings.spack_python.origin,
    );
    push("build.uv", uv, &settings.uv.origin);
    if !settings.index_urls.value.is_empty() {
        let urls = settings.index_urls.value.join(" ");
        push("build.index_urls", urls, &settings.index_urls.origin);
    }
    registry_rows(settings, &mut push);
    trust_rows(settings, &mut push);
    for setting in &settings.restricted {
        let key = format!("restricted.{}", setting.rule.images);
        let value = format!("group {}", setting.rule.group);
        push(&key, value, &Origin::File(setting.file.clone()));
    }
    machine_rows(settings, &mut push);
    let directories = &settings.environment_directories;
    let list: Vec<String> = directories.value.iter().map(|one| path(one)).collect();
    push("environments", list.join(":"), &directories.origin);
    let directories = &settings.system_directories;
    let list: Vec<String> = directories.value.iter().map(|one| path(one)).collect();
    push("systems", list.join(":"), &directories.origin);
    for file in &settings.files {
        push("file", path(file), &Origin::File(file.clone()));
    }
    repository_rows(settings, &mut push);
    rows
}

/// What this machine has for programs and containers.
fn machine_rows(settings: &Effective, push: &mut impl FnMut(&str, String, &Origin)) {
    for setting in &settings.mpi {
        let key = format!("mpi.{}", setting.name);
        push(&key, setting.prefix.display().to_string(), &setting.origin);
        if !setting.launcher.is_empty() {
            let key = format!("{key}.launcher");
            push(&key, setting.launcher.join(" "), &setting.origin);
        }
    }
    for (device, origin) in &settings.container.devices {
        push("container.device", device.to_string(), origin);
    }
}

fn repository_rows(settings: &Effective, push: &mut impl FnMut(&str, String, &Origin)) {
    for repository in &settings.repositories {
        let key = format!("repositories.{}", repository.name);
        let mut value = format!(
            "{} (priority {})",
            repository.path.display(),
            repository.priority
        );
        if let Some(reason) = &repository.unusable {
            value += &format!(", left out: {reason}");
        }
        push(&key, value, &repository.origin);
        let limits = limits(&repository.retention);
        if !limits.is_empty() {
            push(&format!("{key}.retention"), limits, &repository.origin);
        }
    }
}

fn registry_rows(settings: &Effective, push: &mut impl FnMut(&str, String, &Origin)) {
    let registry = &settings.registry;
    let Some(address) = &registry.address.value else {
        push("registry.url", "none".to_owned(), &registry.address.origin);
        return;
    };
    push(
        "registry.url",
        address.to_string(),
        &registry.address.origin,
    );
    let namespace = &registry.namespace;
    push(
        "registry.namespace",
        namespace.value.to_string(),
        &namespace.origin,
    );
    let listing = &registry.listing;
    let word = format!("{:?}", listing.value).to_lowercase();
    push("registry.listing", word, &listing.origin);
    for (key, path) in [
        ("registry.ca", &registry.authorities),
        ("registry.token", &registry.token),
    ] {
        if let Some(found) = &path.value {
            push(key, found.display().to_string(), &path.origin);
        }
    }
}

/// Returns what is removed from a repository, as it can be written.
fn limits(retention: &RetentionSettings) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let time = |time: Duration| match time.as_secs() {
        seconds if seconds % DAY == 0 => format!("{}d", seconds / DAY),
        seconds => format!("{seconds}s"),
    };
    let limits = [
        ("older_than", retention.older_than.map(time)),
        (
            "keep_last",
            retention.keep_last.map(|count| count.to_string()),
        ),
        (
            "max_size",
            retention.max_size.map(|bytes| bytes.to_string()),
        ),
        ("spare", retention.spare.map(time)),
    ];
    let limits = limits.into_iter();
    let limits = limits.filter_map(|(key, value)| Some(format!("{key} {}", value?)));
    limits.collect::<Vec<_>>().join(", ")
}

/// All rules, also those of the site that one of the user's seems to take back.
fn trust_rows(settings: &Effective, push: &mut impl FnMut(&str, String, &Origin)) {
    for setting in &settings.trust {
        let origin = Origin::File(setting.file.clone());
        for rule in &setting.policy.rules {
            let mut wanted = match &rule.requirement {
                Requirement::Nothing => "nothing".to_owned(),
                Requirement::Signature { keys } => {
                    let keys: Vec<_> = keys.iter().map(PathTemplate::as_str).collect();
                    format!("signature by {}", keys.join(" or "))
                }
            };
            wanted += match rule.at_start {
                AtStart::Never => "",
                AtStart::Others => ", at the start of images of others, too",
                AtStart::All => ", at every start, too",
            };
            let key = format!("trust.{}", rule.namespaces.as_str());
            push(&key, wanted, &origin);
        }
    }
}
