// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane add` and `cabane remove`.

use std::path::{Path, PathBuf};

use cabane_builder::{EditedRecipe, PackageAction, PackageEdit, edit_packages};
use cabane_label::{escape, shown, shown_word};
use cabane_report::{Kind, Report, Result};
use clap::Args;
use serde::Serialize;

use super::RecipeArgs;
use super::names::check_names;
use crate::setup::Setup;

/// Add packages to a recipe
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane add numpy 'pandas>=2'
  cabane add --recipe ./analysis 'dask[array]==2026.1'
  cabane add 'hdf5+mpi' --environment tools

The command changes one line for each package: in the requirements file or the pyproject.toml of a
recipe for Python, in the environments.yaml of a recipe for Spack. An entry for the same package is
replaced. A name alone leaves an entry as it is.")]
pub(crate) struct AddArgs {
    /// Requirements of Python, or specs of Spack
    #[arg(required = true, value_name = "PACKAGE")]
    names: Vec<String>,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The environment of a recipe for Spack; default: its only one
    #[arg(long = "environment", value_name = "NAME")]
    of_environment: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove packages from a recipe
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane remove numpy
  cabane remove --recipe ./prgenv hdf5 --environment tools")]
pub(crate) struct RemoveArgs {
    /// The names of packages
    #[arg(required = true, value_name = "PACKAGE")]
    names: Vec<String>,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The environment of a recipe for Spack; default: the one that lists the package
    #[arg(long = "environment", value_name = "NAME")]
    of_environment: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was changed.
#[derive(Serialize)]
struct Edited<'a> {
    recipe: &'a Path,
    packages: &'a [PackageEdit],
    /// The lock file that no longer matches the recipe.
    outdated_lock: Option<&'a PathBuf>,
}

pub(crate) fn add(setup: &Setup, args: &AddArgs) -> Result<()> {
    refuse_images(&args.names, "add", "image add")?;
    let recipe = &args.recipe.recipe;
    let environment = args.of_environment.as_deref();
    let edited = edit_packages(recipe, PackageAction::Add, &args.names, environment)?;
    let unknown = match edited.environments() {
        Some(text) => check_names(setup, recipe, text)?,
        None => None,
    };
    edited.write()?;
    print(setup, recipe, &edited, args.json);
    if let Some(why) = unknown {
        setup.note(format_args!("package names were not looked up: {why}"));
    }
    Ok(())
}

pub(crate) fn remove(setup: &Setup, args: &RemoveArgs) -> Result<()> {
    refuse_images(&args.names, "remove", "image rm")?;
    let recipe = &args.recipe.recipe;
    let environment = args.of_environment.as_deref();
    let edited = edit_packages(recipe, PackageAction::Remove, &args.names, environment)?;
    edited.write()?;
    print(setup, recipe, &edited, args.json);
    Ok(())
}

fn print(setup: &Setup, recipe: &Path, edited: &EditedRecipe, is_json: bool) {
    let outdated_lock = edited.lock.as_ref().filter(|_| edited.is_changed());
    if is_json {
        setup.printer.json(&Edited { recipe, packages: &edited.edits, outdated_lock });
    } else {
        for edit in &edited.edits {
            setup.note(sentence(edit));
        }
    }
    if let Some(lock) = outdated_lock {
        let option = options_for(setup, recipe);
        setup.hint(format_args!(
            "`cabane lock{option}` updates {}",
            shown(lock.strip_prefix(".").unwrap_or(lock))
        ));
    }
}

/// Says what became of a package.
fn sentence(edit: &PackageEdit) -> String {
    let file = shown(edit.file.strip_prefix(".").unwrap_or(&edit.file));
    let place = match &edit.environment {
        Some(name) => format!("the environment `{}` in {file}", escape(name)),
        None => file,
    };
    match (&edit.before, &edit.now) {
        (None, now) => {
            format!("added `{}` to {place}", escape(now.as_deref().unwrap_or(&edit.package)))
        }
        (Some(before), None) => format!("removed `{}` from {place}", escape(before)),
        (Some(before), Some(now)) if before == now => {
            format!("`{}` is already in {place}", escape(now))
        }
        (Some(before), Some(now)) => {
            format!("changed `{}` to `{}` in {place}", escape(before), escape(now))
        }
    }
}

/// Returns the options that name the system, if it was typed, and a recipe elsewhere.
pub(super) fn options_for(setup: &Setup, recipe: &Path) -> String {
    let system = setup.named_system.as_ref();
    let system = system.map(|system| format!(" --system {}", shown_word(system)));
    let recipe = (recipe != Path::new(".")).then(|| format!(" --recipe {}", shown_word(recipe)));
    system.into_iter().chain(recipe).collect()
}

/// Refuses images, which other commands add and remove.
fn refuse_images(packages: &[String], verb: &str, meant: &str) -> Result<()> {
    let is_image = |word: &&String| {
        let is_file = [".squashfs", ".erofs", ".sif"].iter().any(|end| word.ends_with(end));
        is_file || word.contains('/') && !word.contains(['@', '%', '^'])
    };
    let Some(image) = packages.iter().find(is_image) else { return Ok(()) };
    let message =
        format!("`{}` is not a package, and `cabane {verb}` changes recipes", escape(image));
    let words: Vec<String> = packages.iter().map(shown_word).collect();
    let hint = format!("for an image, type `cabane {meant} {}`", words.join(" "));
    Err(Report::new(Kind::Usage, message).hinted(hint))
}
