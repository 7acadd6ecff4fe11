// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What no program can convert.

use super::{PACKAGES_COMMIT, SPACK};
use crate::stack::recipe::StackRecipe;
use crate::stack::version::SpackVersion;

/// Returns what a person must still look at.
pub(super) fn about(recipe: &StackRecipe) -> Vec<String> {
    let mut notes = Vec::new();
    if recipe.version < SpackVersion::OLDEST {
        notes.push(format!(
            "Spack is {SPACK} now, with the packages of {PACKAGES_COMMIT}: versions and variants \
             that specs name may be gone, and others are the default"
        ));
        notes.push(
            "packages in `repo/` must be written for the package API 2: they import from \
             `spack.package` and `spack_repo.builtin`"
                .to_owned(),
        );
    } else {
        if SpackVersion::in_name(recipe.spack.source.commit.as_deref().unwrap_or("develop"))
            .is_none()
            && recipe.spack.source.commit.is_some()
        {
            notes.push(
                "the commit of Spack does not tell its version: in format 3 it is taken for one with \
                 groups of specs, of 1.2 or later, unless its clone says otherwise"
                    .to_owned(),
            );
        }
        if recipe.version < SpackVersion::SPEC_GROUPS {
            notes.push(format!(
                "Spack {} builds the recipe as a chain of environments; from 1.2 on it is one",
                recipe.version
            ));
        }
    }
    for environment in recipe.environments.iter().filter(|one| !one.packages.is_empty()) {
        notes.push(format!(
            "the environment `{}` looked for {} on the system: describe them in packages.yaml, of \
             the recipe or of the system, or they are built",
            environment.name,
            environment.packages.join(", ")
        ));
    }
    for remark in &recipe.remarks {
        let file = remark.file.file_name().unwrap_or_default().to_string_lossy();
        let line = remark.line;
        // That a key is superfluous is no news: it is left out.
        if !remark.message.starts_with("`modules`") {
            notes.push(format!("{file}, line {line}: {}", remark.message));
        }
    }
    notes
}
