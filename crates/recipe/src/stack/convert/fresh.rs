// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of format 3, written from what a recipe says.

use cabane_view::{BuiltinChange, Check, Decimal, Figure, ViewName};

use crate::recipe::{Cleanup, EnvVars, GitSource, PackageRepository, SpackConfig};
use crate::stack::recipe::{
    CompilerRequest, CompilerSource, Duplicates, StackEnvironment, StackRecipe, StackView, Unify,
};
use crate::stack::value::{Yaml, YamlMap};

pub(super) fn config(recipe: &StackRecipe) -> String {
    let config = &recipe.config;
    let mut file = YamlMap::new();
    file.insert("name", config.name.as_str());
    file.insert("version", 3);
    file.insert("store", config.store.as_str());
    file.insert_some("description", config.description.as_deref());
    file.insert_some("default-view", config.default_view.as_ref().map(ViewName::as_str));
    let changes = config.checks.builtins.iter().map(change);
    let checks: Vec<Yaml> = changes.chain(config.checks.commands.iter().map(check)).collect();
    file.insert_filled("checks", checks);
    file.insert_some("debug-symbols", config.separates_debug_symbols.then_some("separate"));
    file.insert("spack", spack(&recipe.spack));
    let cleanup = recipe.spack.cleanup;
    file.insert_some("cleanup", (cleanup != Cleanup::None).then_some(cleanup.as_str()));
    Yaml::Map(file).to_string()
}

fn change(change: &BuiltinChange) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("builtin", change.builtin.as_str());
    if !change.except.is_empty() {
        map.insert("except", Yaml::texts(change.except.iter().map(String::as_str)));
    }
    map.insert_some("skip", change.skip.then_some(true));
    map.insert_some("reason", change.reason.as_deref());
    Yaml::Map(map)
}

fn check(check: &Check) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("name", check.name.as_str());
    match check.command.as_slice() {
        [shell, option, text] if shell == "sh" && option == "-c" => {
            map.insert("command", text.as_str());
        }
        words => map.insert("command", Yaml::texts(words.iter().map(String::as_str))),
    }
    map.insert_some("view", check.view.as_ref().map(ViewName::as_str));
    map.insert_some("ranks", (check.ranks != 1).then_some(check.ranks));
    let exit_code = u32::try_from(check.exit_code).ok().filter(|code| *code != 0);
    map.insert_some("exit-code", exit_code);
    map.insert_some("expect", check.expect.as_deref());
    map.insert_some("limit", check.limit.map(|seconds| format!("{seconds}s")));
    let figures: Vec<Yaml> = check.figures.iter().map(figure).collect();
    map.insert_filled("figures", figures);
    Yaml::Map(map)
}

fn figure(figure: &Figure) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("name", figure.name.as_str());
    map.insert("pattern", figure.pattern.as_str());
    map.insert_some("unit", Some(figure.unit.as_str()).filter(|unit| !unit.is_empty()));
    let reference = figure.reference.iter();
    let reference: YamlMap =
        reference.map(|(system, number)| (system.as_str(), decimal(*number))).collect();
    map.insert_filled("reference", reference);
    map.insert_some("lower", figure.lower.map(decimal));
    map.insert_some("upper", figure.upper.map(decimal));
    Yaml::Map(map)
}

fn decimal(number: Decimal) -> Yaml {
    Yaml::Number(number.get().to_string())
}

fn spack(config: &SpackConfig) -> YamlMap {
    let mut spack = source(&config.source);
    spack.insert("packages", packages(&config.package_repositories));
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
    map.insert_some("commit", source.commit.as_deref());
    map
}

pub(super) fn compilers(recipe: &StackRecipe) -> String {
    let mut file = YamlMap::new();
    for (name, source) in &recipe.compilers.sources {
        match source {
            CompilerSource::System => {
                file.insert(name.package(), Yaml::map([("version", "system".into())]));
            }
            CompilerSource::Built(request) => file.insert(name.package(), compiler(request)),
        }
    }
    Yaml::Map(file).to_string()
}

fn compiler(request: &CompilerRequest) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("version", request.version.as_str());
    map.insert_some("spec", request.spec.as_deref());
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
    map.insert_some("network", network(one));
    match one.unify {
        Unify::Yes => map.insert("unify", true),
        Unify::No => map.insert("unify", false),
        Unify::WhenPossible => map.insert("unify", "when_possible"),
    }
    if one.duplicates != Duplicates::default() {
        let strategy = one.duplicates.as_str().into();
        map.insert("duplicates", Yaml::map([("strategy", strategy)]));
    }
    map.insert_some("deprecated", one.deprecated.then_some(true));
    map.insert("specs", list(&one.specs));
    map.insert_filled("variants", list(&one.variants));
    map.insert_some("prefer", one.prefer.as_deref().map(list));
    let views = one.views.iter().map(|view| (view.name.as_str(), view_of(view).into()));
    map.insert_filled("views", views.collect::<YamlMap>());
    map
}

/// Returns `network:` of an environment, if it says anything about it.
pub(super) fn network(one: &StackEnvironment) -> Option<Yaml> {
    let mut map = YamlMap::new();
    map.insert_some("mpi", one.mpi.as_ref().map(|mpi| mpi.spec.as_str()));
    map.insert_some("specs", one.network_specs.as_deref().map(list));
    (!map.is_empty()).then_some(map.into())
}

fn view_of(view: &StackView) -> YamlMap {
    let mut map = YamlMap::new();
    map.insert("link", view.link.as_str());
    map.insert_filled("select", list(&view.select));
    map.insert_filled("exclude", list(&view.exclude));
    map.insert_filled("projections", view.projections.clone());
    let mut uenv = YamlMap::new();
    uenv.insert_some("add_compilers", (!view.add_compilers).then_some(false));
    let paths = view.prefix_paths.iter().map(|(name, paths)| (name.as_str(), list(paths)));
    uenv.insert_filled("prefix_paths", paths.collect::<YamlMap>());
    uenv.insert_filled("env_vars", env_vars(&view.env_vars));
    map.insert_filled("uenv", uenv);
    map
}

fn env_vars(vars: &EnvVars) -> YamlMap {
    let one = |name: &str, value: Yaml| Yaml::map([(name, value)]);
    let mut map = YamlMap::new();
    let set = vars.set.iter().map(|(name, value)| {
        let value = value.as_deref().map_or(Yaml::Null, Yaml::from);
        one(name, value)
    });
    map.insert_filled("set", set.collect::<Vec<_>>());
    map.insert_filled("prepend_path", pairs(&vars.prepend_path));
    map.insert_filled("append_path", pairs(&vars.append_path));
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
