// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From `config.toml` to [`Settings`].

use std::path::Path;

use cabane_label::Name;

use super::sections::{refuse_unknown, sections};
use super::values::{host, number_from_one, path_template, whole_number};
use super::{
    AmountError, RepositorySettings, RetentionSettings, Settings, channel, container, evidence,
    mpi, parse_size, parse_time, restricted, table, trust,
};
use crate::ask::{Field, Section, each};
use crate::diagnostic::{Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::Node;
use crate::report::Report;

/// Reads `config.toml`; an empty file leaves everything open.
pub fn parse_settings(path: &Path, text: &[u8]) -> Result<Settings, Mistakes> {
    file::read(path, text, Language::Toml, read).map_err(Mistakes::in_the("the configuration"))
}

/// Reads what can be read; what is missing in the result has been noted.
fn read(report: &Report<'_>, root: &Node) -> Option<Settings> {
    let file = report.file(root, "")?;
    refuse_unknown(&file, "");
    let mut settings = Settings::default();
    read_values(&file, "", &mut settings);
    settings.repositories = repositories(&file);
    if let Some(section) = section(&file, "build") {
        read_values(&section, "build", &mut settings);
        settings.index_urls = index_urls(&section);
        settings.shared_cache_keys = evidence::keys(&section, "shared_cache_keys");
    }
    if let Some(section) = section(&file, "registry") {
        read_values(&section, "registry", &mut settings);
        let services = section.items("token_services", "a host").into_iter();
        settings.token_services = services.filter_map(|field| host(&field)).collect();
    }
    settings.trust = trust::read(&file);
    settings.channels = channel::read(&file);
    if let Some(section) = section(&file, "evidence") {
        settings.evidence = evidence::read(&section);
    }
    if let Some(section) = section(&file, "check") {
        read_values(&section, "check", &mut settings);
    }
    if let Some(section) = section(&file, "update") {
        read_values(&section, "update", &mut settings);
        settings.update_keys = evidence::keys(&section, "keys");
    }
    settings.restricted = restricted::read(&file);
    if let Some(section) = section(&file, "container") {
        read_values(&section, "container", &mut settings);
        settings.container = container::read(&section);
    }
    settings.mpi = mpi::read(&file);
    if let Some(section) = section(&file, "slurm") {
        read_values(&section, "slurm", &mut settings);
    }
    Some(settings)
}

/// Returns the table of a name, in which unknown keys have been noted.
fn section<'n>(file: &Section<'n>, name: &str) -> Option<Section<'n>> {
    let section = file.get(name)?.section()?;
    refuse_unknown(&section, name);
    Some(section)
}

/// Reads the settings of a table that have one value.
pub(super) fn read_values(section: &Section<'_>, table: &str, settings: &mut Settings) {
    for setting in table::settings_in(table) {
        let (Some(read), Some(field)) = (setting.reader, section.get(setting.name())) else {
            continue;
        };
        if let Some(value) = read(&field) {
            settings.values.push((setting.key, value));
        }
    }
}

pub(super) fn repositories(file: &Section<'_>) -> Vec<RepositorySettings> {
    let mut repositories: Vec<RepositorySettings> = Vec::new();
    for section in sections(file, "repositories", "a repository") {
        let name = section.require("name", "add a line such as `name = \"team\"`");
        let path = section.require("path", "add a line such as `path = \"~/images\"`");
        let read_name = name.as_ref().and_then(Field::word::<Name>);
        let path = path.and_then(|field| path_template(&field));
        let priority = section.given_or("priority", RepositorySettings::DEFAULT_PRIORITY, priority);
        let retention = section.get("retention").and_then(|field| field.section());
        let retention = retention.map(|section| retention_of(&section));
        let (Some(name), Some(field)) = (read_name, name) else {
            continue;
        };
        if repositories.iter().any(|known| known.name == name.as_str()) {
            let message = format!("there are two repositories {}", quote(name.as_str()));
            file.report.problem_with_hint(field.place(), &message, "give one of them another name");
        } else if let (Some(path), Some(priority)) = (path, priority) {
            repositories.push(RepositorySettings {
                name: name.to_string(),
                path,
                priority,
                retention: retention.unwrap_or_default(),
            });
        }
    }
    repositories
}

fn retention_of(section: &Section<'_>) -> RetentionSettings {
    refuse_unknown(section, "repositories.retention");
    let time = |key| {
        let field = section.get(key)?;
        amount(&field, parse_time)
    };
    let (older_than, spare) = (time("older_than"), time("spare"));
    let deduplicate = time("deduplicate");
    RetentionSettings {
        older_than,
        keep_last: section.get("keep_last").and_then(|field| {
            let hint = "leave it out to keep none for being among the newest";
            number_from_one(&field, hint)
        }),
        max_size: section.get("max_size").and_then(|field| amount(&field, parse_size)),
        spare,
        deduplicate,
    }
}

pub(super) fn amount<T>(
    field: &Field<'_>,
    parse: impl Fn(&str) -> Result<T, AmountError>,
) -> Option<T> {
    let parsed = parse(field.text()?);
    parsed.map_err(|error| field.report.note(Some(field.place()), &error.to_string(), None)).ok()
}

fn priority(field: &Field<'_>) -> Option<i32> {
    whole_number(field)
        .and_then(|number| i32::try_from(number).ok())
        .or_else(|| field.wrong_type("a whole number", Some("write one such as `priority = 10`")))
}

fn index_urls(section: &Section<'_>) -> Option<Vec<String>> {
    let one = section.get("index_url");
    let several = section.get("index_urls");
    match (one, several) {
        (Some(one), Some(_)) => {
            let message = "`index_url` and `index_urls` cannot both be given";
            section.report.refuse(one.key_place, message, "add it to the list of the other")
        }
        (Some(one), None) => url(&one).map(|url| vec![url]),
        (None, Some(several)) => each(several.items("an address")?, |item| url(&item)),
        (None, None) => None,
    }
}

fn url(field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_address = |text: &str| {
        let mut starts = ["https://", "http://", "file:///"].iter();
        let host = starts.find_map(|start| text.strip_prefix(start));
        host.is_some_and(|host| !host.is_empty() && !host.contains(is_odd))
    };
    let hint = "an address begins with `https://`, `http://`, or `file:///`";
    field.text_if(is_address, "is not the address of a package index", hint)
}
