// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a recipe and a system to what Spack gets.

use cabane_recipe::{SpackVersion, StackRecipe, SystemConfig, YamlMap};

use crate::places::Places;
use crate::stack::{Sources, SpackStack};
use crate::{LowerError, chain, files, groups, mirrors, modules, packages, sources, views};

/// Says what Spack gets to build a recipe for a system.
///
/// The same recipe, system and places always give the same.
pub fn lower(
    recipe: &StackRecipe,
    system: &SystemConfig,
    places: &Places,
) -> Result<SpackStack, LowerError> {
    let version = places.version.unwrap_or(recipe.version);
    if version < SpackVersion::OLDEST {
        return Err(LowerError::OldSpack { version });
    }
    if system.packages.get("gcc").is_none() {
        return Err(LowerError::NoGcc);
    }
    let repositories = sources::package_repositories(&recipe.spack, recipe.version);
    let has_place = |name: &str| places.repositories.iter().any(|place| place.name == name);
    if let Some(one) = repositories.iter().find(|one| !has_place(&one.name)) {
        let name = one.name.clone();
        return Err(LowerError::NoPlace { name });
    }
    let has_groups = version >= SpackVersion::SPEC_GROUPS;
    let environments = if has_groups {
        vec![groups::environment(recipe, system)?]
    } else {
        chain::environments(recipe, system)?
    };
    let views = recipe.views().map(|(environment, view)| {
        let maker = if has_groups { groups::NAME } else { &environment.name };
        views::for_build(recipe, environment, view, maker)
    });
    Ok(SpackStack {
        sources: Sources { spack: recipe.spack.source.clone(), repositories },
        version,
        environments,
        config: files::config(recipe, system, places, version),
        upstream: files::upstream(recipe, system, places),
        views: views.collect(),
        modules: modules::files(recipe),
        compilers: recipe.compilers.built().map(|(name, _)| name).collect(),
        cleanup: recipe.spack.cleanup,
        keys: mirrors::keys(&system.mirrors),
        push_to: mirrors::push_to(&system.mirrors),
    })
}

/// Returns all settings of packages: those of the system, of its network, and of the recipe.
#[must_use]
pub fn settings_of_packages(recipe: &StackRecipe, system: &SystemConfig) -> YamlMap {
    packages::merged(recipe, system)
}
