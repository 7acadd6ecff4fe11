// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds for packages: the system, its network, the recipe. Of two that
//! speak about a package, the later is taken whole.

use cabane_recipe::{StackRecipe, SystemConfig, Yaml, YamlMap};

/// Returns all settings of packages.
pub(crate) fn merged(recipe: &StackRecipe, system: &SystemConfig) -> YamlMap {
    system.packages.clone().overlaid(&system.network_packages).overlaid(&recipe.packages)
}

/// Returns what all environments of a chain get: that which builds gcc
/// alone knows the gcc of the system.
pub(crate) fn of_chain(recipe: &StackRecipe, system: &SystemConfig) -> YamlMap {
    if recipe.compilers.use_system_gcc() {
        return merged(recipe, system);
    }
    let mut packages = system.packages.clone();
    packages.remove("gcc");
    packages.overlaid(&system.network_packages).overlaid(&recipe.packages)
}

/// Returns what those need to know who use the image as an upstream.
pub(crate) fn upstream(recipe: &StackRecipe, system: &SystemConfig) -> YamlMap {
    let mut packages = merged(recipe, system);
    if !recipe.compilers.use_system_gcc() {
        packages.remove("gcc");
    }
    packages
}

/// Returns a `packages.yaml`.
pub(crate) fn file(packages: YamlMap) -> String {
    Yaml::map([("packages", packages.into())]).to_string()
}
