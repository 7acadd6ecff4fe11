// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane lock` and `cabane update`.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_builder::{LockWish, Locked, VersionChange, lock_packages};
use cabane_image_build::lock_request;
use cabane_label::{escape, shown};
use cabane_report::{Kind, Report, Result};
use clap::Args;
use serde::Serialize;

use super::RecipeArgs;
use super::edit::options_for;
use crate::exit_codes::{self, ExitCode};
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::setup::Setup;
use crate::table::{Table, counted};

/// Write the exact versions of the packages of a recipe into its lock file
#[derive(Debug, Args)]
#[command(after_help = "\
The lock file has the version and the hashes of each package, also of those that others need. It is
beside the list of packages: requirements.lock for requirements.txt, uv.lock for a project, and for
Spack the directory locks/SYSTEM, one for each system. Commit it. Builds install exactly these
packages, and refuse a lock file that no longer matches the recipe. Locked versions stay if the recipe
still allows them, as do the commits of Spack and of its package repositories. `cabane update`
updates them.

Examples:
  cabane lock
  cabane lock --check
  cabane lock --recipe ./analysis
  cabane lock --system eiger --recipe ./prgenv-gnu")]
pub(crate) struct LockArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Only check whether the lock file matches the recipe; exit with code 9 if it does not
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Update the packages in the lock file of a recipe
#[derive(Debug, Args)]
#[command(after_help = "\
Without names, all packages get the newest versions that the recipe allows. With names, the others
stay unless they have to change. For Spack, the newest commits of the branches in config.yaml are
looked up, and Spack decides about all packages again; names are not possible.

Examples:
  cabane update --dry-run
  cabane update
  cabane update numpy pandas
  cabane update --system eiger --recipe ./prgenv-gnu --dry-run")]
pub(crate) struct UpdateArgs {
    /// The names of packages; default: all
    #[arg(value_name = "PACKAGE")]
    names: Vec<String>,
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A lock file, as programs read it.
#[derive(Serialize)]
struct Output<'a> {
    recipe: &'a Path,
    lock: &'a Path,
    packages: usize,
    changes: &'a [VersionChange],
    written: bool,
    /// Why it does not match the recipe.
    mismatch: Option<&'a str>,
}

pub(crate) fn lock(setup: &Setup, args: &LockArgs) -> Result<ExitCode> {
    let recipe = &args.recipe.recipe;
    let wish = if args.check { LockWish::Check } else { LockWish::Keep };
    let locked = run(setup, recipe, &wish, args.check)?;
    let file = file_of(recipe, &locked);
    print_json(setup, recipe, &locked, args.json, !args.check);
    let (name, packages) = (shown(&file), counted(locked.packages, "package"));
    if let Some(why) = &locked.mismatch {
        let report =
            Report::new(Kind::Build, format!("the recipe has no matching lock file: {why}"));
        let hint = format!("`cabane lock{}` writes it", options_for(setup, recipe));
        setup.printer.failure(&report.hinted(hint));
        return Ok(exit_codes::DIFFERENT);
    }
    if args.check {
        setup.note(format_args!("{name} matches the recipe ({packages})"));
    } else if locked.is_changed {
        print_table(setup, &locked, args.json);
        setup.note(format_args!("wrote {name} ({packages})"));
    } else {
        setup.note(format_args!("{name} is up to date ({packages})"));
    }
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn update(setup: &Setup, args: &UpdateArgs) -> Result<()> {
    refuse_images(&args.names)?;
    let recipe = &args.recipe.recipe;
    let locked = run(setup, recipe, &LockWish::Newest(args.names.clone()), args.dry_run)?;
    let name = shown(&file_of(recipe, &locked));
    print_json(setup, recipe, &locked, args.json, !args.dry_run);
    let packages = counted(locked.packages, "package");
    if !locked.is_changed {
        setup.note(format_args!("{name} has the newest versions already ({packages})"));
        return Ok(());
    }
    print_table(setup, &locked, args.json);
    let what = if args.dry_run { "would be written" } else { "was written" };
    let changes = counted(locked.changes.len(), "change");
    setup.note(format_args!("{changes}: {name} {what} ({packages})"));
    Ok(())
}

fn run(setup: &Setup, recipe: &Path, wish: &LockWish, dry_run: bool) -> Result<Locked> {
    let request = lock_request(setup, recipe, setup.named_system.as_deref())?;
    let interrupt = stop_when_interrupted()?;
    Ok(lock_packages(&request, wish, dry_run, &mut Shown::new(setup), &interrupt)?)
}

/// Returns the lock file as the user names the recipe.
fn file_of(recipe: &Path, locked: &Locked) -> PathBuf {
    let real = fs::canonicalize(recipe).unwrap_or_else(|_| recipe.to_owned());
    match locked.file.strip_prefix(&real) {
        Ok(relative) if recipe == Path::new(".") => relative.to_owned(),
        Ok(relative) => recipe.join(relative),
        Err(_) => locked.file.clone(),
    }
}

fn print_json(setup: &Setup, recipe: &Path, locked: &Locked, is_json: bool, can_write: bool) {
    if !is_json {
        return;
    }
    setup.printer.json(&Output {
        recipe,
        lock: &file_of(recipe, locked),
        packages: locked.packages,
        changes: &locked.changes,
        written: can_write && locked.is_changed,
        mismatch: locked.mismatch.as_deref(),
    });
}

/// Prints what has changed; nothing if all packages are new.
fn print_table(setup: &Setup, locked: &Locked, is_json: bool) {
    let is_first = locked.changes.iter().all(|change| change.from.is_none())
        && locked.changes.len() == locked.packages;
    if is_json || is_first || locked.changes.is_empty() {
        return;
    }
    let mut table = Table::new(&["package", "from", "to"]);
    for VersionChange { package, from, to } in &locked.changes {
        let version = |version: &Option<String>| {
            version.as_deref().map_or_else(|| "-".to_owned(), |one| escape(one).to_string())
        };
        table.push(&[&escape(package), &version(from), &version(to)]);
    }
    setup.printer.data(table);
}

/// Refuses images, which have a command of their own.
fn refuse_images(packages: &[String]) -> Result<()> {
    let Some(image) = packages.iter().find(|word| word.contains('/')) else { return Ok(()) };
    let message =
        format!("`{}` is not a package, and `cabane update` changes recipes", escape(image));
    let hint =
        format!("for an image that follows a channel, type `cabane upgrade {}`", escape(image));
    Err(Report::new(Kind::Usage, message).hinted(hint))
}
