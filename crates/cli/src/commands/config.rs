// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane config`: the settings in effect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::System;
use cabane_recipe::settings::table;
use cabane_recipe::{AtStart, Labels, PathTemplate, Requirement, RetentionSettings};
use cabane_registry::{Address, Listing};
use cabane_report::Result;
use cabane_site::settings::{Effective, Origin, Value, processors};
use clap::Args;
use serde::Serialize;

use crate::setup::Setup;
use crate::table::Table;

/// Show the configuration in effect and the source of each value
#[derive(Debug, Args)]
#[command(after_help = "\
The page docs/reference/configuration.md describes all settings. An installation has it in the
directory share/doc/cabane below its prefix, as in /usr/share/doc/cabane.")]
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

pub(crate) fn config(setup: &Setup, args: &ConfigArgs) -> Result<()> {
    let rows = rows(&setup.settings);
    if args.json {
        setup.printer.json(&rows);
        return Ok(());
    }
    let mut table = Table::new(&["key", "value", "from"]);
    for row in rows {
        table.push(&[&row.key, &row.value, &row.origin]);
    }
    setup.printer.data(table);
    Ok(())
}

/// Collects the rows of the answer.
struct Rows(Vec<Row>);

impl Rows {
    fn push(&mut self, key: &str, value: String, origin: &Origin) {
        self.0.push(Row { key: key.to_owned(), value, origin: origin.to_string() });
    }

    fn value<T>(&mut self, key: &str, value: &Value<T>, show: impl FnOnce(&T) -> String) {
        self.push(key, show(&value.value), &value.origin);
    }
}

/// Shows a value, or what holds where there is none.
fn or<T>(none: &'static str, show: impl Fn(&T) -> String) -> impl Fn(&Option<T>) -> String {
    move |value| value.as_ref().map_or_else(|| none.to_owned(), &show)
}

fn path(path: &impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn rows(settings: &Effective) -> Vec<Row> {
    const NO_HOME: &str = "none: HOME is not set";
    let mut rows = Rows(Vec::new());
    rows.value(table::COLOR.key, &settings.color, ToString::to_string);
    rows.value(table::SYSTEM.key, &settings.system, or("*", System::to_string));
    rows.value(table::UARCH.key, &settings.uarch, ToString::to_string);
    rows.value("backend", &settings.backend, ToString::to_string);
    rows.value(table::CACHE_DIRECTORY.key, &settings.cache_directory, or(NO_HOME, path));
    if settings.shared_cache.value.is_some() {
        rows.value(table::SHARED_CACHE.key, &settings.shared_cache, or("", path));
        let keys = |keys: &Vec<PathBuf>| keys.iter().map(path).collect::<Vec<_>>().join(" ");
        if !settings.shared_cache_keys.value.is_empty() {
            rows.value(table::SHARED_CACHE_KEYS.key, &settings.shared_cache_keys, keys);
        }
    }
    rows.value(table::BUILD_DIRECTORY.key, &settings.build_directory, or(NO_HOME, path));
    rows.value(table::MEMORY_DIRECTORY.key, &settings.memory_directory, path);
    rows.value(table::FORMAT.key, &settings.image_format, ToString::to_string);
    let jobs = |jobs: &Option<usize>| jobs.unwrap_or_else(processors).to_string();
    rows.value(table::JOBS.key, &settings.jobs, jobs);
    for (setting, value) in [
        (&table::SBATCH, &settings.sbatch),
        (&table::REMOTE_PROGRAM, &settings.remote_program),
        (&table::UPDATE_SOURCE, &settings.update.source),
    ] {
        if let Some(text) = &value.value {
            rows.push(setting.key, text.clone(), &value.origin);
        }
    }
    if !matches!(settings.command_network.origin, Origin::Default) {
        let word = |allowed: &bool| if *allowed { "allow" } else { "forbid" }.to_owned();
        rows.value(table::COMMAND_NETWORK.key, &settings.command_network, word);
    }
    let python = or("made when it is needed", path);
    rows.value(table::SPACK_PYTHON.key, &settings.spack_python, &python);
    rows.value(table::EASYBUILD_PYTHON.key, &settings.easybuild_python, python);
    rows.value(table::UV.key, &settings.uv, or("fetched when it is needed", path));
    rows.value(table::REFRAME.key, &settings.reframe, or("the first in PATH", path));
    rows.value(table::SUITES.key, &settings.suites, or("those that are installed", path));
    if !settings.index_urls.value.is_empty() {
        rows.value(table::INDEX_URLS.key, &settings.index_urls, |urls| urls.join(" "));
    }
    registry_rows(settings, &mut rows);
    trust_rows(settings, &mut rows);
    for setting in &settings.channels {
        let key = format!("channel.{}::{}", setting.namespace, setting.name);
        let keys: Vec<_> = setting.keys.iter().map(path).collect();
        let value = format!("signed by {}", keys.join(" or "));
        rows.push(&key, value, &Origin::File(setting.file.clone()));
    }
    for setting in &settings.restricted {
        let key = format!("restricted.{}", setting.rule.images);
        let value = format!("group {}", setting.rule.group);
        rows.push(&key, value, &Origin::File(setting.file.clone()));
    }
    machine_rows(settings, &mut rows);
    let list = |all: &Vec<PathBuf>| all.iter().map(path).collect::<Vec<_>>().join(":");
    rows.value("environments", &settings.environment_directories, list);
    rows.value("systems", &settings.system_directories, list);
    for file in &settings.files {
        rows.push("file", path(file), &Origin::File(file.clone()));
    }
    repository_rows(settings, &mut rows);
    rows.0
}

/// What this machine has for programs and containers.
fn machine_rows(settings: &Effective, rows: &mut Rows) {
    for setting in &settings.mpi {
        let key = format!("mpi.{}", setting.name);
        rows.push(&key, path(&setting.prefix), &setting.origin);
        if !setting.launcher.is_empty() {
            let key = format!("{key}.launcher");
            rows.push(&key, setting.launcher.join(" "), &setting.origin);
        }
        for plugin in &setting.plugins {
            rows.push(&format!("mpi.{}.plugin", setting.name), path(plugin), &setting.origin);
        }
    }
    rows.value(table::CONTAINER_OPTIONS.key, &settings.container_options, String::clone);
    for (device, origin) in &settings.container.devices {
        rows.push("container.device", device.to_string(), origin);
    }
    let registry = &settings.container.default_registry;
    if let Some(name) = &registry.value {
        rows.push(table::DEFAULT_REGISTRY.key, name.clone(), &registry.origin);
    }
}

fn repository_rows(settings: &Effective, rows: &mut Rows) {
    for repository in &settings.repositories {
        let key = format!("repositories.{}", repository.name);
        let mut value = format!("{} (priority {})", repository.path.display(), repository.priority);
        if let Some(reason) = &repository.unusable {
            value += &format!(", left out: {reason}");
        }
        rows.push(&key, value, &repository.origin);
        let limits = limits(&repository.retention);
        if !limits.is_empty() {
            rows.push(&format!("{key}.retention"), limits, &repository.origin);
        }
    }
}

fn registry_rows(settings: &Effective, rows: &mut Rows) {
    let registry = &settings.registry;
    rows.value(table::REGISTRY_URL.key, &registry.address, or("none", Address::to_string));
    if registry.address.value.is_none() {
        return;
    }
    rows.value(table::NAMESPACE.key, &registry.namespace, ToString::to_string);
    let listing = |listing: &Listing| format!("{listing:?}").to_lowercase();
    rows.value(table::LISTING.key, &registry.listing, listing);
    for (setting, value) in
        [(&table::REGISTRY_CA, &registry.authorities), (&table::REGISTRY_TOKEN, &registry.token)]
    {
        if let Some(found) = &value.value {
            rows.push(setting.key, path(found), &value.origin);
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
        ("keep_last", retention.keep_last.map(|count| count.to_string())),
        ("max_size", retention.max_size.map(|bytes| bytes.to_string())),
        ("spare", retention.spare.map(time)),
        ("deduplicate", retention.deduplicate.map(time)),
    ];
    let limits = limits.into_iter();
    let limits = limits.filter_map(|(key, value)| Some(format!("{key} {}", value?)));
    limits.collect::<Vec<_>>().join(", ")
}

/// All rules, also those of the site that one of the user's seems to take back.
fn trust_rows(settings: &Effective, rows: &mut Rows) {
    for setting in &settings.trust {
        let origin = Origin::File(setting.file.clone());
        for rule in &setting.policy.rules {
            let mut wanted = match &rule.requirement {
                Requirement::Nothing => "nothing".to_owned(),
                Requirement::Signature { keys, labels } => {
                    let keys: Vec<_> = keys.iter().map(PathTemplate::as_str).collect();
                    let labels = match labels {
                        Labels::Warn => "",
                        Labels::Refuse => " for the label",
                    };
                    format!("signature by {}{labels}", keys.join(" or "))
                }
            };
            wanted += match rule.at_start {
                AtStart::Never => "",
                AtStart::Others => ", at the start of images of others, too",
                AtStart::All => ", at every start, too",
            };
            let key = format!("trust.{}", rule.namespaces.as_str());
            rows.push(&key, wanted, &origin);
        }
    }
}
