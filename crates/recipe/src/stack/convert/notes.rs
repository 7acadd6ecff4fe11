// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What no program can convert.

use super::Target;
use crate::stack::recipe::StackRecipe;
use crate::stack::version::SpackVersion;

/// Returns what a person must still look at.
pub(super) fn about(recipe: &StackRecipe, target: &Target) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(spack) = &target.new_spack {
        let packages = &target.packages_commit;
        let with = target.has_new_packages || target.moves_packages;
        let with = if with { format!(", with the packages of {packages}") } else { String::new() };
        notes.push(format!(
            "the recipe now uses Spack {spack}{with}: versions and variants that specs name may no \
             longer exist, and defaults may differ"
        ));
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
    if let Some(fork) = &target.left_fork {
        notes.push(format!(
            "Spack comes from spack/spack now, and no longer from {fork}: what was changed there is \
             missing"
        ));
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
