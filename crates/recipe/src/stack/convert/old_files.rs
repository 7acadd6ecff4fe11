// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `modules.yaml`: in format 3 it is there if there are module files.

use crate::stack::recipe::StackRecipe;

/// What becomes of `modules.yaml`.
pub(super) struct ModulesFile {
    /// Its text, if it has to be written.
    pub(super) added: Option<String>,
    /// Whether it has to go.
    pub(super) is_removed: bool,
}

pub(super) fn modules(recipe: &StackRecipe, has_file: bool) -> ModulesFile {
    let is_wanted = recipe.modules.is_some();
    let text = "modules:\n  default:\n    enable: [tcl]\n    arch_folder: false\n";
    ModulesFile {
        added: (is_wanted && !has_file).then(|| text.to_owned()),
        is_removed: has_file && !is_wanted,
    }
}
