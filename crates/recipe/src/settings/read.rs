// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From `config.toml` to [`Settings`].

use std::path::Path;

use cabane_label::Name;

use super::sections::{refuse_unknown, sections};
use super::values::{number_from_one, path_template, whole_number};
use super::{
    AmountError, RepositorySettings, RetentionSettings, Settings, container, mpi, parse_size,
    parse_time, restricted, table, trust,
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
fn read(report: &mut Report<'_>, root: &Node) -> Option<Settings> {
    let file = report.file(root, "")?;
    refuse_unknown(report, &file, "");
    let mut settings = Settings::default();
    read_values(report, &file, "", &mut settings);
    settings.repositories = repositories(report, &file);
    if let Some(section) = section(report, &file, "build") {
        read_values(report, &section, "build", &mut settings);
        settings.index_urls = index_urls(report, &section);
    }
    if let Some(section) = section(report, &file, "registry") {
        read_values(report, &section, "registry", &mut settings);
    }
    settings.trust = trust::read(report, &file);
    settings.restricted = restricted::read(report, &file);
    if let Some(section) = section(report, &file, "container") {
        settings.container = container::read(report, &section);
    }
    settings.mpi = mpi::read(report, &file);
    Some(settings)
}

/// Returns the table of a name, in which unknown keys have been noted.
fn section<'n>(report: &mut Report<'_>, file: &Section<'n>, name: &str) -> Option<Section<'n>> {
    let section = report.section(&file.get(name)?)?;
    refuse_unknown(report, &section, name);
    Some(section)
}

/// Reads the settings of a table that have one value.
fn read_values(
    report: &mut Report<'_>,
    section: &Section<'_>,
    table: &str,
    settings: &mut Settings,
) {
    for setting in table::settings_in(table) {
        let (Some(read), Some(field)) = (setting.reader, section.get(setting.name())) else {
            continue;
        };
        if let Some(value) = read(report, &field) {
            settings.values.push((setting.key, value));
        }
    }
}

fn repositories(report: &mut Report<'_>, file: &Section<'_>) -> Vec<RepositorySettings> {
    let mut repositories: Vec<RepositorySettings> = Vec::new();
    for section in sections(report, file, "repositories", "a repository") {
        let name = section.require(report, "name", "add a line such as `name = \"team\"`");
        let path = section.require(report, "path", "add a line such as `path = \"~/images\"`");
        let read_name = name.as_ref().and_then(|field| report.word::<Name>(field));
        let path = path.and_then(|field| path_template(report, &field));
        let priority =
            section.get_or(report, "priority", RepositorySettings::DEFAULT_PRIORITY, priority);
        let retention = section.get("retention").and_then(|field| report.section(&field));
        let retention = retention.map(|section| retention_of(report, &section));
        let (Some(name), Some(field)) = (read_name, name) else {
            continue;
        };
        if repositories.iter().any(|known| known.name == name.as_str()) {
            let message = format!("there are two repositories {}", quote(name.as_str()));
            report.problem_with_hint(field.place(), &message, "give one of them another name");
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

fn retention_of(report: &mut Report<'_>, section: &Section<'_>) -> RetentionSettings {
    refuse_unknown(report, section, "repositories.retention");
    let mut time = |key| {
        let field = section.get(key)?;
        amount(report, &field, parse_time)
    };
    let (older_than, spare) = (time("older_than"), time("spare"));
    RetentionSettings {
        older_than,
        keep_last: section.get("keep_last").and_then(|field| {
            let hint = "leave it out to keep none for being among the newest";
            number_from_one(report, &field, hint)
        }),
        max_size: section.get("max_size").and_then(|field| amount(report, &field, parse_size)),
        spare,
    }
}

fn amount<T>(
    report: &mut Report<'_>,
    field: &Field<'_>,
    parse: impl Fn(&str) -> Result<T, AmountError>,
) -> Option<T> {
    let parsed = parse(report.text(field)?);
    parsed.map_err(|error| report.note(Some(field.place()), &error.to_string(), None)).ok()
}

fn priority(report: &mut Report<'_>, field: &Field<'_>) -> Option<i32> {
    whole_number(field).and_then(|number| i32::try_from(number).ok()).or_else(|| {
        report.wrong_type(field, "a whole number", Some("write one such as `priority = 10`"))
    })
}

fn index_urls(report: &mut Report<'_>, section: &Section<'_>) -> Option<Vec<String>> {
    let one = section.get("index_url");
    let several = section.get("index_urls");
    match (one, several) {
        (Some(one), Some(_)) => {
            let message = "`index_url` and `index_urls` cannot both be given";
            report.refuse(one.key_place, message, "add it to the list of the other")
        }
        (Some(one), None) => url(report, &one).map(|url| vec![url]),
        (None, Some(several)) => {
            each(report.list(&several)?, |item| url(report, &Field::item("an address", item)))
        }
        (None, None) => None,
    }
}

fn url(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_address = |text: &str| {
        let mut starts = ["https://", "http://", "file:///"].iter();
        let host = starts.find_map(|start| text.strip_prefix(start));
        host.is_some_and(|host| !host.is_empty() && !host.contains(is_odd))
    };
    let hint = "an address begins with `https://`, `http://` or `file:///`";
    report.text_if(field, is_address, "is not the address of a package index", hint)
}
