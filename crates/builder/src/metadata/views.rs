// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what a recipe says about views to what they change.

use std::path::Path;

use cabane_recipe::{EnvVars, Recipe, ViewRecipe};
use cabane_view::{Change, EnvPatch, ListOperation, View, ViewName};

use crate::engine::Facts;

/// Where packages keep what CMake looks for below a prefix.
const CMAKE: [&str; 3] = ["lib/cmake", "lib64/cmake", "share/cmake"];

/// Where packages keep what pkg-config looks for, the most usual place first.
const PKG_CONFIG: [&str; 3] = ["lib/pkgconfig", "lib64/pkgconfig", "share/pkgconfig"];

/// Returns the changes that make a tree usable: its programs, manual pages, and
/// what build tools look for. The library path stays as it is: it would break the
/// programs of the system, and those of the tree know their libraries.
pub(crate) fn directories_patch(tree: &Path, root: &str) -> EnvPatch {
    let mut patch = EnvPatch::new();
    let has = |directory: &str| tree.join(directory).is_dir();
    if has("bin") {
        patch.push("PATH", prepend(vec![format!("{root}/bin")]));
    }
    if has("share/man") {
        patch.push("MANPATH", prepend(vec![format!("{root}/share/man")]));
        // An empty element stands for the pages of the system.
        patch.push("MANPATH", append(vec![String::new()]));
    }
    if CMAKE.into_iter().any(has) {
        patch.push("CMAKE_PREFIX_PATH", prepend(vec![root.to_owned()]));
    }
    for directory in PKG_CONFIG.into_iter().rev().filter(|&directory| has(directory)) {
        patch.push("PKG_CONFIG_PATH", prepend(vec![format!("{root}/{directory}")]));
    }
    patch
}

/// Makes the view that a recipe describes.
pub(super) fn view(
    recipe: &Recipe,
    facts: &Facts,
    name: &ViewName,
    view_recipe: &ViewRecipe,
) -> View {
    let mut patch = facts.patches.get(name).unwrap_or(&facts.patch).clone();
    let placeholders = Placeholders {
        mount: recipe.store.as_str(),
        view_path: &facts.view_root,
        view_name: name.as_str(),
    };
    placeholders.apply(&view_recipe.env_vars, &mut patch);
    View {
        description: view_recipe.description.clone(),
        root: Some(facts.view_root.clone()),
        activate: facts.activate.clone(),
        patch,
    }
}

/// What the placeholders `$@…@` of a recipe stand for.
pub(crate) struct Placeholders<'a> {
    /// The mount point.
    pub(crate) mount: &'a str,
    /// The directory of the view.
    pub(crate) view_path: &'a str,
    /// Its name.
    pub(crate) view_name: &'a str,
}

impl Placeholders<'_> {
    fn replace(&self, text: &str) -> String {
        text.replace("$@mount@", self.mount)
            .replace("$@view_path@", self.view_path)
            .replace("$@view_name@", self.view_name)
    }

    /// Adds what a recipe says to the changes of a view.
    pub(crate) fn apply(&self, variables: &EnvVars, patch: &mut EnvPatch) {
        for (variable, value) in &variables.set {
            let change = match value {
                Some(value) => Change::Set(self.replace(value)),
                None => Change::Unset,
            };
            patch.push(variable, change);
        }
        for (variable, value) in &variables.prepend_path {
            patch.push(variable, prepend(vec![self.replace(value)]));
        }
        for (variable, value) in &variables.append_path {
            patch.push(variable, append(vec![self.replace(value)]));
        }
    }
}

/// Puts values before those of a list.
pub(crate) fn prepend(values: Vec<String>) -> Change {
    Change::List { operation: ListOperation::Prepend, values }
}

/// Puts values after those of a list.
pub(crate) fn append(values: Vec<String>) -> Change {
    Change::List { operation: ListOperation::Append, values }
}
