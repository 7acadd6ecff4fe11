// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The configuration of uenv, as [`Settings`]: `config.toml` of version 10, and lines `key = value`
//! of the versions before.

use std::path::Path;

use super::read::{read_values, repositories};
use super::{RepositorySettings, RetentionSettings, Settings, table};
use crate::diagnostic::Mistakes;
use crate::file;
use crate::language::Language;

/// The name that the repository of a user has.
const REPOSITORY: &str = "default";
/// Its priority where it competes with others.
const PRIORITY: i32 = 9;

/// Reads a configuration file of uenv. Keys without a counterpart here are ignored, as are lines
/// of the old form that are malformed: uenv ignores such a file.
///
/// # Errors
///
/// `config.toml` is not TOML, or a value in it is not one.
pub fn parse_uenv_settings(path: &Path, text: &[u8]) -> Result<Settings, Mistakes> {
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(of_lines(&String::from_utf8_lossy(text)));
    }
    let read = file::read(path, text, Language::Toml, |report, root| {
        let file = report.file(root, "")?;
        let mut settings = Settings::default();
        read_values(&file, "", &mut settings);
        settings.repositories = repositories(&file);
        let elastic = file.get("elastic").and_then(|field| field.section());
        settings.elastic = elastic.and_then(|section| section.get("url")?.string());
        Some(settings)
    });
    read.map_err(Mistakes::in_the("the configuration of uenv"))
}

fn of_lines(text: &str) -> Settings {
    let mut settings = Settings::default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for (key, value) in lines.filter_map(|line| line.split_once('=')) {
        let color = |when: &str| (table::COLOR.key, when.to_owned());
        match (key.trim(), value.trim()) {
            ("color", "true") => settings.values.push(color("always")),
            ("color", "false") => settings.values.push(color("never")),
            ("elasticsearch", url) => settings.elastic = Some(url.to_owned()),
            ("repo", path) => settings.repositories = path.parse().map(own).into_iter().collect(),
            _ => {}
        }
    }
    settings
}

fn own(path: super::PathTemplate) -> RepositorySettings {
    RepositorySettings {
        name: REPOSITORY.to_owned(),
        path,
        priority: PRIORITY,
        retention: RetentionSettings::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_set_the_repository_and_the_color() {
        let text =
            b"# uenv\nrepo = ${HOME}/images\ncolor=false\nelasticsearch=http://log\nnonsense\n";
        let settings = parse_uenv_settings(Path::new("config"), text).unwrap();
        let paths: Vec<_> = settings.repositories.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((paths, settings.get(&table::COLOR)), (vec!["${HOME}/images"], Some("never")));
        assert_eq!(settings.elastic.as_deref(), Some("http://log"));
    }

    #[test]
    fn a_path_that_is_none_is_ignored() {
        let settings = parse_uenv_settings(Path::new("config"), b"repo = images\n").unwrap();
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn tables_name_repositories_and_a_collector_and_others_are_ignored() {
        let text =
            b"color = true\n[[repositories]]\nname = \"team\"\npath = \"/team\"\npriority = 3\n\
                     [elastic]\nurl = \"http://log\"\n[other]\nkey = 1\n";
        let settings = parse_uenv_settings(Path::new("config.toml"), text).unwrap();
        let found: Vec<_> =
            settings.repositories.iter().map(|one| (&*one.name, one.priority)).collect();
        assert_eq!((found, settings.get(&table::COLOR)), (vec![("team", 3)], Some("always")));
        assert_eq!(settings.elastic.as_deref(), Some("http://log"));
    }
}
