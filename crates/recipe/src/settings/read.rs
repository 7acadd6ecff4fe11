// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From `config.toml` to [`Settings`].

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;

use cabane_label::Name;

use super::{
    AmountError, BuildSettings, ColorChoice, FormatChoice, PathTemplate, RepositorySettings,
    RetentionSettings, Settings, container, mpi, parse_size, parse_time, registry, restricted,
    trust,
};
use crate::ask::{Field, Section};
use crate::diagnostic::{Diagnostic, Source, quote, write_all};
use crate::node::{Kind, Node, Scalar, Value};
use crate::report::{Language, Report};
use crate::{text, toml_tree};

const KEYS: &[&str] = &[
    "color",
    "system_name",
    "default_uarch",
    "repositories",
    "build",
    "registry",
    "trust",
    "restricted",
    "container",
    "mpi",
];
const REPOSITORY_KEYS: &[&str] = &["name", "path", "priority", "retention"];
const RETENTION_KEYS: &[&str] = &["older_than", "keep_last", "max_size", "spare"];
const BUILD_KEYS: &[&str] = &[
    "format",
    "jobs",
    "directory",
    "memory",
    "cache",
    "uv",
    "spack_python",
    "index_url",
    "index_urls",
];

/// Why a configuration file was refused: everything that is wrong with it, in
/// the order of the file, at least one diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(Vec<Diagnostic>);

impl SettingsError {
    /// Returns what is wrong, in the order of the file.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(f, &self.0)
    }
}

impl std::error::Error for SettingsError {}

/// Reads `config.toml`; an empty file leaves everything open.
pub fn parse_settings(path: &Path, text: &[u8]) -> Result<Settings, SettingsError> {
    let text = text::check(path, text).map_err(|problem| SettingsError(vec![problem]))?;
    let source = Source::new(path, text);
    let mut report = Report::new(&source, Language::Toml);
    let settings = toml_tree::parse(&mut report).and_then(|root| read(&mut report, &root));
    report.finish(settings).map_err(SettingsError)
}

/// Reads what can be read; what is missing in the result has been noted.
fn read(report: &mut Report<'_>, root: &Node) -> Option<Settings> {
    let file = report.file(root, "")?;
    file.refuse_unknown(report, KEYS, |key| {
        let table = if BUILD_KEYS.contains(&key) {
            "[build]"
        } else if REPOSITORY_KEYS.contains(&key) {
            "[[repositories]]"
        } else if registry::KEYS.contains(&key) {
            "[registry]"
        } else if RETENTION_KEYS.contains(&key) {
            "[repositories.retention]"
        } else if trust::KEYS.contains(&key) {
            "[[trust]]"
        } else if restricted::KEYS.contains(&key) {
            "[[restricted]]"
        } else if container::KEYS.contains(&key) {
            "[container]"
        } else {
            return None;
        };
        Some((None, format!("it belongs below a line `{table}`")))
    });
    let mut settings = Settings {
        color: file.get("color").and_then(|field| color(report, &field)),
        system_name: file
            .get("system_name")
            .and_then(|field| report.word(&field)),
        default_uarch: file
            .get("default_uarch")
            .and_then(|field| report.word(&field)),
        ..Settings::default()
    };
    if let Some(field) = file.get("repositories") {
        settings.repositories = repositories(report, &field);
    }
    if let Some(section) = file.get("build").and_then(|field| report.section(&field)) {
        settings.build = build(report, &section);
    }
    let registry = file
        .get("registry")
        .and_then(|field| report.section(&field));
    if let Some(section) = registry {
        settings.registry = registry::read(report, &section);
    }
    if let Some(field) = file.get("trust") {
        settings.trust = trust::read(report, &field);
    }
    if let Some(field) = file.get("restricted") {
        settings.restricted = restricted::read(report, &field);
    }
    let container = file
        .get("container")
        .and_then(|field| report.section(&field));
    if let Some(section) = container {
        settings.container = container::read(report, &section);
    }
    if let Some(field) = file.get("mpi") {
        settings.mpi = mpi::read(report, &field);
    }
    Some(settings)
}

fn color(report: &mut Report<'_>, field: &Field<'_>) -> Option<ColorChoice> {
    if let Value::Scalar(Scalar {
        kind: Kind::Boolean,
        ..
    }) = field.node.value
    {
        let is_on = report.truth(field)?;
        return Some(if is_on {
            ColorChoice::Always
        } else {
            ColorChoice::Never
        });
    }
    let words = [
        ("auto", ColorChoice::Auto),
        ("always", ColorChoice::Always),
        ("never", ColorChoice::Never),
    ];
    report.choice(field, &words)
}

/// Says of a key that is not one of this table that it is one of the file.
pub(super) fn above(key: &str) -> Option<(Option<String>, String)> {
    KEYS.contains(&key).then(|| {
        (
            None,
            "it belongs to the whole file: move it above the first line in brackets".to_owned(),
        )
    })
}

fn repositories(report: &mut Report<'_>, field: &Field<'_>) -> Vec<RepositorySettings> {
    let mut repositories: Vec<RepositorySettings> = Vec::new();
    for item in report.list(field).unwrap_or_default() {
        let field = Field::item("a repository", item);
        let Some(section) = report.section(&field) else {
            continue;
        };
        section.refuse_unknown(report, REPOSITORY_KEYS, above);
        let name = section.require(report, "name", "add a line such as `name = \"team\"`");
        let path = section.require(report, "path", "add a line such as `path = \"~/images\"`");
        let read_name = name.as_ref().and_then(|field| report.word::<Name>(field));
        let path = path.and_then(|field| path_template(report, &field));
        let priority = match section.get("priority") {
            Some(field) => priority(report, &field),
            None => Some(RepositorySettings::DEFAULT_PRIORITY),
        };
        let retention = section
            .get("retention")
            .and_then(|field| report.section(&field));
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
    section.refuse_unknown(report, RETENTION_KEYS, above);
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
        max_size: section
            .get("max_size")
            .and_then(|field| amount(report, &field, parse_size)),
        spare,
    }
}

fn amount<T>(
    report: &mut Report<'_>,
    field: &Field<'_>,
    parse: impl Fn(&str) -> Result<T, AmountError>,
) -> Option<T> {
    let parsed = parse(report.text(field)?);
    parsed
        .map_err(|error| report.note(Some(field.place()), &error.to_string(), None))
        .ok()
}

fn priority(report: &mut Report<'_>, field: &Field<'_>) -> Option<i32> {
    whole_number(field)
        .and_then(|number| i32::try_from(number).ok())
        .or_else(|| {
            report.wrong_type(
                field,
                "a whole number",
                Some("write one such as `priority = 10`"),
            );
            None
        })
}

fn build(report: &mut Report<'_>, section: &Section<'_>) -> BuildSettings {
    section.refuse_unknown(report, BUILD_KEYS, above);
    let formats = [
        ("squashfs", FormatChoice::Squashfs),
        ("erofs", FormatChoice::Erofs),
    ];
    BuildSettings {
        format: section
            .get("format")
            .and_then(|field| report.choice(&field, &formats)),
        jobs: section.get("jobs").and_then(|field| {
            number_from_one(report, &field, "leave it out to use every core there is")
        }),
        directory: section
            .get("directory")
            .and_then(|field| path_template(report, &field)),
        memory: section
            .get("memory")
            .and_then(|field| path_template(report, &field)),
        cache: section
            .get("cache")
            .and_then(|field| path_template(report, &field)),
        uv: section
            .get("uv")
            .and_then(|field| path_template(report, &field)),
        spack_python: section
            .get("spack_python")
            .and_then(|field| path_template(report, &field)),
        index_urls: index_urls(report, section),
    }
}

fn number_from_one(report: &mut Report<'_>, field: &Field<'_>, hint: &str) -> Option<NonZeroU32> {
    let number = whole_number(field).and_then(|number| u32::try_from(number).ok());
    number.and_then(NonZeroU32::new).or_else(|| {
        report.wrong_type(field, "a number of at least 1", Some(hint));
        None
    })
}

fn index_urls(report: &mut Report<'_>, section: &Section<'_>) -> Option<Vec<String>> {
    let one = section.get("index_url");
    let several = section.get("index_urls");
    match (one, several) {
        (Some(one), Some(_)) => {
            let message = "`index_url` and `index_urls` cannot both be given";
            report.problem_with_hint(one.key_place(), message, "add it to the list of the other");
            None
        }
        (Some(one), None) => url(report, &one).map(|url| vec![url]),
        (None, Some(several)) => {
            let items = report.list(&several)?;
            let urls: Vec<_> = items
                .iter()
                .map(|item| url(report, &Field::item("an address", item)))
                .collect();
            urls.into_iter().collect()
        }
        (None, None) => None,
    }
}

fn url(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let text = report.text(field)?;
    let host = ["https://", "http://", "file:///"]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    let is_right = host.is_some_and(|host| {
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control())
    });
    if !is_right {
        let message = format!("{} is not the address of a package index", quote(text));
        let hint = "an address begins with `https://`, `http://` or `file:///`";
        report.problem_with_hint(field.place(), &message, hint);
        return None;
    }
    Some(text.to_owned())
}

fn whole_number(field: &Field<'_>) -> Option<i64> {
    match &field.node.value {
        Value::Scalar(Scalar {
            text,
            kind: Kind::Integer,
        }) => text.parse().ok(),
        _ => None,
    }
}

pub(super) fn path_template(report: &mut Report<'_>, field: &Field<'_>) -> Option<PathTemplate> {
    let text = report.text(field)?;
    match text.parse() {
        Ok(path) => Some(path),
        Err(error) => {
            let error: super::PathTemplateError = error;
            report.note(
                Some(field.place()),
                &error.to_string(),
                error.hint().as_deref(),
            );
            None
        }
    }
}

impl From<SettingsError> for cabane_report::Report {
    fn from(error: SettingsError) -> Self {
        crate::diagnostic::malformed("the configuration", error.diagnostics())
    }
}
