// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The views: for Spack, which links packages, and for the code that makes variables.

use cabane_recipe::{StackEnvironment, StackRecipe, StackView as ViewOfRecipe, Yaml, YamlMap};

use crate::specs::list;
use crate::stack::StackView;

/// Where a view lies.
fn root(recipe: &StackRecipe, view: &ViewOfRecipe) -> String {
    format!("{}/env/{}", recipe.config.store.as_str(), view.name)
}

/// Returns a view as Spack has it; `group` is for environments with groups.
pub(crate) fn for_spack(recipe: &StackRecipe, view: &ViewOfRecipe, group: Option<&str>) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("root", root(recipe, view));
    map.insert_some("group", group);
    map.insert("link", view.link.as_str());
    for (key, specs) in [("exclude", &view.exclude), ("select", &view.select)] {
        if !specs.is_empty() {
            map.insert(key, list(specs));
        }
    }
    if !view.projections.is_empty() {
        map.insert("projections", view.projections.clone());
    }
    map.into()
}

/// Returns `view:` of an environment: `false` where there are no views.
pub(crate) fn or_none(views: YamlMap) -> Yaml {
    if views.is_empty() { false.into() } else { views.into() }
}

/// Returns a view for the code that makes its variables.
pub(crate) fn for_build(
    recipe: &StackRecipe,
    environment: &StackEnvironment,
    view: &ViewOfRecipe,
    spack_environment: &str,
) -> StackView {
    StackView {
        name: view.name.clone(),
        environment: environment.name.clone(),
        spack_environment: spack_environment.to_owned(),
        root: root(recipe, view),
        link: view.link,
        add_compilers: view.add_compilers,
        compilers: environment.compilers.clone(),
        prefix_paths: view.prefix_paths.clone(),
        env_vars: view.env_vars.clone(),
    }
}
