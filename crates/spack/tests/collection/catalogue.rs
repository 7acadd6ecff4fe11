// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which recipe is for which system, as the collection says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_recipe::{Yaml, YamlMap};

/// Returns all directories with a recipe, in order.
pub(crate) fn recipes(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        if directory.join("config.yaml").exists() {
            found.push(directory);
            continue;
        }
        let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        open.extend(entries.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// Returns a system for each recipe that is built: one to which it is deployed, or
/// else one that has its kind of nodes.
pub(crate) fn targets(config: &Path) -> BTreeMap<String, String> {
    let text = fs::read(config).unwrap();
    let config = Yaml::parse(config, &text).unwrap_or_else(|error| panic!("{error}"));
    let mut targets = BTreeMap::new();
    for (name, versions) in entries(config.at(&["uenvs"])) {
        for (_, version) in entries(Some(versions)) {
            for (uarch, path) in entries(version.at(&["recipes"])) {
                let deployed = entries(version.at(&["deploy"]))
                    .find(|(_, uarchs)| has(uarchs.as_list(), uarch))
                    .map(|(system, _)| system);
                let system = deployed.or_else(|| with_nodes(&config, uarch));
                let path = path.as_text().unwrap_or_default();
                let both = [format!("{name}/{path}"), path.to_owned()];
                for path in both {
                    targets.insert(path, system.unwrap_or("daint").to_owned());
                }
            }
        }
    }
    targets
}

fn with_nodes<'a>(config: &'a Yaml, uarch: &str) -> Option<&'a str> {
    entries(config.at(&["clusters"]))
        .find(|(_, cluster)| {
            let targets = cluster.at(&["targets"]).and_then(Yaml::as_list);
            let is_it =
                |target: &Yaml| target.at(&["uarch"]).and_then(Yaml::as_text) == Some(uarch);
            targets.unwrap_or_default().iter().any(is_it)
        })
        .map(|(name, _)| name)
}

fn has(list: Option<&[Yaml]>, text: &str) -> bool {
    list.unwrap_or_default().iter().any(|item| item.as_text() == Some(text))
}

fn entries(value: Option<&Yaml>) -> impl Iterator<Item = (&str, &Yaml)> {
    value.and_then(Yaml::as_map).into_iter().flat_map(YamlMap::iter)
}
