// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of format 3, written from what a recipe says.

use crate::recipe::{Cleanup, EnvVars, GitSource, PackageRepository, SpackConfig};
use crate::stack::recipe::{
    CompilerRequest, Duplicates, GccRequest, StackEnvironment, StackRecipe, StackView, Unify,
};
use crate::stack::value::{Yaml, YamlMap};

pub(super) fn config(recipe: &StackRecipe) -> String {
    let config = &recipe.config;
    let mut file = YamlMap::new();
    file.insert("name", config.name.as_str());
    file.insert("version", 3);
    file.insert("store", config.store.as_str());
    if let Some(description) = &config.description {
        file.insert("description", description.as_str());
    }
    if let Some(view) = &config.default_view {
        file.insert("default-view", view.as_str());
    }
    file.insert("spack", spack(&recipe.spack));
    if recipe.spack.cleanup != Cleanup::None {
        file.insert("cleanup", recipe.spack.cleanup.as_str());
    }
    Yaml::Map(file).to_string()
}

fn spack(config: &SpackConfig) -> YamlMap {
    let mut spack = source(&config.source);
    let packages = packages(&config.package_repositories);
    spack.insert("packages", packages);
    spack
}

/// Returns `packages:` of `config.yaml`.
pub(super) fn packages(repositories: &[PackageRepository]) -> YamlMap {
    match repositories {
        [one] if one.name == "builtin" => package_repository(one),
        all => all.iter().map(|one| (one.name.as_str(), package_repository(one).into())).collect(),
    }
}

fn package_repository(one: &PackageRepository) -> YamlMap {
    let mut map = source(&one.source);
    if one.path != format!("repos/spack_repo/{}", one.name) {
        map.insert("path", one.path.as_str());
    }
    map
}

fn source(source: &GitSource) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("repo", source.repo.as_str());
    if let Some(commit) = &source.commit {
        map.insert("commit", commit.as_str());
    }
    map
}

pub(super) fn compilers(recipe: &StackRecipe) -> String {
    let mut file = YamlMap::new();
    match &recipe.compilers.gcc {
        GccRequest::System => {
            file.insert("gcc", Yaml::map([("version", "system".into())]));
        }
        GccRequest::Built(request) => file.insert("gcc", compiler(request)),
    }
    for (name, request) in &recipe.compilers.others {
        file.insert(name.package(), compiler(request));
    }
    Yaml::Map(file).to_string()
}

fn compiler(request: &CompilerRequest) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("version", request.version.as_str());
    if let Some(spec) = &request.spec {
        map.insert("spec", spec.as_str());
    }
    map
}

pub(super) fn environments(recipe: &StackRecipe) -> String {
    let file: YamlMap = recipe
        .environments
        .iter()
        .map(|one| (one.name.as_str(), environment(one).into()))
        .collect();
    Yaml::Map(file).to_string()
}

fn environment(one: &StackEnvironment) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("compiler", Yaml::texts(one.compilers.iter().map(|name| name.package())));
    if let Some(network) = network(one) {
        map.insert("network", network);
    }
    match one.unify {
        Unify::Yes => map.insert("unify", true),
        Unify::No => map.insert("unify", false),
        Unify::WhenPossible => map.insert("unify", "when_possible"),
    }
    if one.duplicates != Duplicates::default() {
        let strategy = one.duplicates.as_str().into();
        map.insert("duplicates", Yaml::map([("strategy", strategy)]));
    }
    if one.deprecated {
        map.insert("deprecated", true);
    }
    map.insert("specs", list(&one.specs));
    if !one.variants.is_empty() {
        map.insert("variants", list(&one.variants));
    }
    if let Some(prefer) = &one.prefer {
        map.insert("prefer", list(prefer));
    }
    if !one.views.is_empty() {
        let views: YamlMap =
            one.views.iter().map(|view| (view.name.as_str(), view_of(view).into())).collect();
        map.insert("views", views);
    }
    map
}

/// Returns `network:` of an environment, if it says anything about it.
pub(super) fn network(one: &StackEnvironment) -> Option<Yaml> {
    let mut map = YamlMap::new();
    if let Some(mpi) = &one.mpi {
        map.insert("mpi", mpi.spec.as_str());
    }
    if let Some(specs) = &one.network_specs {
        map.insert("specs", list(specs));
    }
    (!map.is_empty()).then_some(map.into())
}

fn view_of(view: &StackView) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("link", view.link.as_str());
    for (key, specs) in [("select", &view.select), ("exclude", &view.exclude)] {
        if !specs.is_empty() {
            map.insert(key, list(specs));
        }
    }
    if !view.projections.is_empty() {
        map.insert("projections", view.projections.clone());
    }
    let mut uenv = YamlMap::new();
    if !view.add_compilers {
        uenv.insert("add_compilers", false);
    }
    if !view.prefix_paths.is_empty() {
        let paths: YamlMap = view
            .prefix_paths
            .iter()
            .map(|(variable, paths)| (variable.as_str(), list(paths)))
            .collect();
        uenv.insert("prefix_paths", paths);
    }
    if view.env_vars != EnvVars::default() {
        uenv.insert("env_vars", env_vars(&view.env_vars));
    }
    if !uenv.is_empty() {
        map.insert("uenv", uenv);
    }
    map
}

fn env_vars(vars: &EnvVars) -> YamlMap {
    let one = |name: &str, value: Yaml| Yaml::map([(name, value)]);
    let mut map = YamlMap::new();
    let set = vars.set.iter().map(|(name, value)| {
        let value = value.as_deref().map_or(Yaml::Null, Yaml::from);
        one(name, value)
    });
    let lists = [
        ("set", set.collect::<Vec<_>>()),
        ("prepend_path", pairs(&vars.prepend_path)),
        ("append_path", pairs(&vars.append_path)),
    ];
    for (key, items) in lists {
        if !items.is_empty() {
            map.insert(key, items);
        }
    }
    map
}

fn pairs(pairs: &[(String, String)]) -> Vec<Yaml> {
    let one =
        |(name, value): &(String, String)| Yaml::map([(name.as_str(), value.as_str().into())]);
    pairs.iter().map(one).collect()
}

fn list(texts: &[String]) -> Yaml {
    Yaml::texts(texts.iter().map(String::as_str))
}
