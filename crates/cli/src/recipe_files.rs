// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for Spack and systems, for the commands that look at them.

use std::ffi::OsStr;
use std::path::Path;

use cabane_builder::{BuildError, StackTexts, read_system};
use cabane_recipe::{EngineConfig, Mirrors, Recipe, StackRecipe, SystemConfig};
use cabane_report::{Kind, Report, Result};
use cabane_spack::{OwnPackages, Places, SpackStack, lower};

use crate::setup::Setup;

/// Reads the files of a recipe.
pub(crate) fn texts(directory: &Path) -> Result<StackTexts> {
    StackTexts::read(directory).map_err(bad_input)
}

fn bad_input(error: BuildError) -> Report {
    Report::from(error).with_kind(Kind::BadInput)
}

/// Returns whether a recipe is for Spack: its engine is Spack, or it is malformed and has
/// files that only such recipes have.
pub(crate) fn is_for_spack(directory: &Path, recipe: Option<&Recipe>) -> bool {
    match recipe {
        Some(recipe) => matches!(recipe.engine, EngineConfig::Spack(_)),
        None => {
            ["compilers.yaml", "environments.yaml"].iter().any(|name| directory.join(name).exists())
        }
    }
}

/// Reads the configuration of a system, and another `mirrors.yaml` if one is named.
pub(crate) fn system(directory: &Path, mirrors: Option<&Path>) -> Result<SystemConfig> {
    read_system(directory, mirrors).map_err(bad_input)
}

/// Replaces the variables in the paths of mirrors.
pub(crate) fn expand(setup: &Setup, mirrors: Mirrors) -> Result<Mirrors> {
    let value = |name: &str| {
        let value = setup.calling.get(OsStr::new(name))?;
        value.to_str().map(str::to_owned)
    };
    mirrors.expanded(&value).map_err(|error| Report::new(Kind::BadInput, error))
}

/// Returns what Spack would get, with everything where it is in the image.
pub(crate) fn plan(
    directory: &Path,
    recipe: &StackRecipe,
    system: &SystemConfig,
) -> Result<SpackStack> {
    let own = OwnPackages {
        recipe: directory.join("repo/packages").is_dir(),
        system: !system.package_repositories.is_empty(),
    };
    let places = Places::in_image(recipe, Path::new("/cabane/config"), own);
    lower(recipe, system, &places).map_err(|error| {
        let hint = error.hint();
        Report::new(Kind::BadInput, error).hinted(hint)
    })
}
