// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The module files.

use cabane_recipe::{StackRecipe, Yaml, YamlMap};

use crate::stack::ModuleFiles;

/// Returns what is given to Spack so that module files lie where the view
/// `modules` finds them.
pub(crate) fn files(recipe: &StackRecipe) -> Option<ModuleFiles> {
    let modules = recipe.modules.as_ref()?;
    let root = format!("{}/modules", recipe.config.store.as_str());
    let mut all = modules.modules.clone();
    let mut default = match all.get("default") {
        Some(Yaml::Map(default)) => default.clone(),
        _ => YamlMap::new(),
    };
    let kinds = modules.kinds.iter().map(|kind| kind.as_str());
    let roots: YamlMap = kinds.clone().map(|kind| (kind, root.as_str().into())).collect();
    default.insert("arch_folder", false);
    default.insert("enable", Yaml::texts(kinds));
    default.insert("roots", roots);
    all.insert("default", default);
    Some(ModuleFiles {
        kinds: modules.kinds.clone(),
        modules_yaml: Yaml::map([("modules", all.into())]).to_string(),
    })
}
