// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of the system scope, and those for whom the image is an upstream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_recipe::{SpackVersion, StackRecipe, SystemConfig, Yaml, YamlMap};

use crate::places::{Places, Upstream};
use crate::{mirrors, packages};

/// Returns the files of the system scope.
pub(crate) fn config(
    recipe: &StackRecipe,
    system: &SystemConfig,
    places: &Places,
    version: SpackVersion,
) -> BTreeMap<String, String> {
    let all = if version < SpackVersion::SPEC_GROUPS {
        packages::of_chain(recipe, system)
    } else {
        packages::merged(recipe, system)
    };
    let mut files = BTreeMap::new();
    let mut add = |name: &str, text: String| drop(files.insert(name.to_owned(), text));
    add("packages.yaml", packages::file(all));
    add("repos.yaml", repos(places));
    add("config.yaml", config_yaml(recipe, system, places));
    add("mirrors.yaml", mirrors::mirrors_file(recipe, &system.mirrors, places));
    if !places.upstreams.is_empty() {
        add("upstreams.yaml", upstreams(&places.upstreams));
    }
    if let Some(text) = mirrors::guarded_file(recipe, &system.mirrors) {
        add(&format!("{}/mirrors.yaml", mirrors::GUARDED), text);
    }
    let settings = &system.settings;
    for (name, map) in
        [("concretizer", &settings.concretizer), ("toolchains", &settings.toolchains)]
    {
        if !map.is_empty() {
            add(&format!("{name}.yaml"), Yaml::map([(name, map.clone().into())]).to_string());
        }
    }
    mirrors::add_bootstrap(&mut files, &system.mirrors, places);
    files
}

/// Returns the package repositories: the first that has a package is used.
fn repos(places: &Places) -> String {
    let repos: YamlMap =
        places.repositories.iter().map(|place| (place.name.as_str(), path(&place.path))).collect();
    Yaml::map([("repos", repos.into())]).to_string()
}

fn config_yaml(recipe: &StackRecipe, system: &SystemConfig, places: &Places) -> String {
    let mut config = system.settings.config.clone();
    let root = recipe.config.store.as_str().into();
    config.insert("install_tree", Yaml::map([("root", root)]));
    let source_cache = match (&places.source_cache, &system.mirrors.source_cache) {
        (Some(place), _) => Some(path(place)),
        (None, Some(value)) => Some(value.as_str().into()),
        (None, None) => None,
    };
    config.insert_some("source_cache", source_cache);
    config.insert_some("misc_cache", places.misc_cache.as_deref().map(path));
    config.insert_some("build_stage", places.build_stage.as_deref().map(|place| vec![path(place)]));
    config.insert_some("build_jobs", places.build_jobs);
    Yaml::map([("config", config.into())]).to_string()
}

/// Returns the files in `config` of the image.
pub(crate) fn upstream(
    recipe: &StackRecipe,
    system: &SystemConfig,
    places: &Places,
) -> BTreeMap<String, String> {
    let own = recipe.config.store.as_path().to_owned();
    let stores: Vec<_> = [own].into_iter().chain(places.upstreams.iter().cloned()).collect();
    let repos: YamlMap = places
        .repositories
        .iter()
        .map(|place| {
            let found = match &place.upstream {
                Upstream::Same => path(&place.path),
                Upstream::Path(other) => path(other),
                Upstream::Git { source, path } => git(&source.repo, source.commit.as_deref(), path),
            };
            (place.name.as_str(), found)
        })
        .collect();
    let files = [
        ("packages.yaml", packages::file(packages::upstream(recipe, system))),
        ("upstreams.yaml", upstreams(&stores)),
        ("repos.yaml", Yaml::map([("repos", repos.into())]).to_string()),
    ];
    let files = files.into_iter().map(|(name, text)| (name.to_owned(), text));
    files.collect()
}

/// Returns the `upstreams.yaml` of stores. Spack searches the first one first, and a store may need
/// packages of those after it.
fn upstreams(stores: &[PathBuf]) -> String {
    let mut all = YamlMap::new();
    for (number, store) in stores.iter().enumerate() {
        let name = if number == 0 { "system".to_owned() } else { format!("system-{}", number + 1) };
        all.insert(&name, Yaml::map([("install_tree", path(store))]));
    }
    Yaml::map([("upstreams", all.into())]).to_string()
}

/// A package repository that Spack clones.
fn git(repo: &str, commit: Option<&str>, path: &str) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("git", repo);
    map.insert_some("commit", commit);
    map.insert("paths", Yaml::texts([path]));
    map.into()
}

pub(crate) fn path(path: &Path) -> Yaml {
    path.to_string_lossy().into_owned().into()
}
