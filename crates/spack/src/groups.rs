// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Spack 1.2 and later: one environment with groups of specs.
//!
//! Each compiler that is built is a group, gcc before the others, and each
//! environment of the recipe is one that needs the groups of its compilers.

use cabane_recipe::{CompilerName, StackEnvironment, StackRecipe, SystemConfig, Yaml, YamlMap};

use crate::stack::SpackEnvironment;
use crate::{LowerError, specs, views};

/// The name of the one environment.
pub(crate) const NAME: &str = "stack";

/// The variants that gcc gets when it is built.
const GCC_VARIANTS: &str = "build_type=Release +bootstrap +strip ~binutils";

pub(crate) fn environment(
    recipe: &StackRecipe,
    system: &SystemConfig,
) -> Result<SpackEnvironment, LowerError> {
    let mut groups: Vec<Yaml> = recipe
        .compilers
        .built()
        .map(|(name, request)| compiler(recipe, name, request.full_spec(name)))
        .collect();
    for environment in &recipe.environments {
        groups.push(group(recipe, environment, system)?);
    }
    let mut spack = YamlMap::new();
    spack.insert("concretizer", Yaml::map([("reuse", specs::reuse(recipe))]));
    spack.insert("specs", groups);
    spack.insert("view", views::or_none(all_views(recipe)));
    Ok(SpackEnvironment {
        name: NAME.to_owned(),
        needs: Vec::new(),
        spack_yaml: Yaml::map([("spack", spack.into())]).to_string(),
        is_explicit: true,
        compilers: Vec::new(),
        external_find: external_find(recipe),
    })
}

/// The group of a compiler.
fn compiler(recipe: &StackRecipe, name: CompilerName, spec: String) -> Yaml {
    let mut group = YamlMap::new();
    group.insert("group", name.package());
    group.insert("explicit", false);
    if name != CompilerName::GCC && !recipe.compilers.use_system_gcc() {
        group.insert("needs", Yaml::texts(["gcc"]));
    }
    let mut overrides = YamlMap::new();
    overrides.insert("concretizer", specs::compiler_concretizer(specs::reuse(recipe)));
    if name == CompilerName::GCC {
        let gcc = Yaml::map([("variants", Yaml::texts([GCC_VARIANTS]))]);
        overrides.insert("packages", Yaml::map([("gcc", gcc)]));
    }
    group.insert("override", overrides);
    group.insert("specs", vec![Yaml::from(spec)]);
    group.into()
}

/// The group of an environment.
fn group(
    recipe: &StackRecipe,
    environment: &StackEnvironment,
    system: &SystemConfig,
) -> Result<Yaml, LowerError> {
    let mut group = YamlMap::new();
    group.insert("group", environment.name.as_str());
    let is_built = |name: &&CompilerName| recipe.compilers.request(**name).is_some();
    let needs = environment.compilers.iter().filter(is_built);
    let needs: Vec<&str> = needs.map(|name| name.package()).collect();
    if !needs.is_empty() {
        group.insert("needs", Yaml::texts(needs));
    }
    let mut overrides = YamlMap::new();
    let deprecated = environment.deprecated.into();
    overrides.insert("config", Yaml::map([("deprecated", deprecated)]));
    overrides.insert("concretizer", specs::concretizer(environment, specs::reuse(recipe)));
    let packages = specs::packages(recipe, environment, Some(&recipe.compilers));
    if !packages.is_empty() {
        overrides.insert("packages", packages);
    }
    group.insert("override", overrides);
    group.insert("specs", specs::list(&specs::all(environment, system)?));
    Ok(group.into())
}

fn all_views(recipe: &StackRecipe) -> YamlMap {
    recipe
        .views()
        .map(|(environment, view)| {
            let group = Some(environment.name.as_str());
            (view.name.as_str(), views::for_spack(recipe, view, group))
        })
        .collect()
}

/// What formats 1 and 2 look for on the system. With one environment of Spack
/// it is found for all environments of the recipe.
fn external_find(recipe: &StackRecipe) -> Vec<String> {
    if recipe.config.format == cabane_recipe::FormatVersion::V3 {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    for package in recipe.environments.iter().flat_map(|one| &one.packages) {
        if !found.contains(package) {
            found.push(package.clone());
        }
    }
    found
}
