// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo import`: the images of a repository of uenv.

use std::path::{Path, PathBuf};

use cabane_label::{Label, LabelPattern};
use cabane_report::{Result, size};
use cabane_repository::{ImageFormat, Repository};
use cabane_run::{metadata, open_image};
use cabane_uenv::{Fate, Import, Imported, Plan, UenvRepository};
use clap::Args;

use crate::commands::repo::progress::Shown;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;
use crate::table::Table;

/// Copy the images of a uenv repository
#[derive(Debug, Args)]
#[command(after_help = "\
The import keeps all labels and their dates, and checks the digest of every image. Images
that are already in the target are skipped, so you can repeat an interrupted import.
Corrupt images are reported and skipped; the exit code is then 6. The uenv repository is
not changed.

Examples:
  cabane repo import $SCRATCH/.uenv-images --dry-run
  cabane repo import $SCRATCH/.uenv-images
  cabane --repo=/shared/cabane/repository repo import /shared/uenv prgenv-gnu")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ImportArgs {
    /// The uenv repository: a directory with an index.db
    path: PathBuf,
    /// Copy only matching labels, such as prgenv-gnu, /24.11, or @daint
    pattern: Option<String>,
    /// Hard-link files where possible, instead of copying them
    #[arg(long)]
    link: bool,
    /// Move labels from the images that have them
    #[arg(long)]
    force: bool,
    /// Show what would be copied, and stop; images are not read
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn import(setup: &Setup, args: &ImportArgs) -> Result<ExitCode> {
    let pattern = args.pattern.as_deref().map(str::parse::<LabelPattern>);
    let pattern = pattern.transpose()?;
    let source = UenvRepository::open(&args.path)?;
    let how = Import { pattern: pattern.as_ref(), link: args.link, replace: args.force };
    let target = target(setup, args)?;
    let plan = cabane_uenv::plan(&source, target.as_ref(), how)?;
    let damaged = match target.filter(|_| !args.dry_run) {
        None => {
            print_plan(setup, args, &plan);
            plan.damaged
        }
        Some(target) => {
            let imported = execute(setup, &source, &target, &plan, how)?;
            print_imported(setup, args, &imported);
            imported.damaged
        }
    };
    for corruption in &damaged {
        setup.warning(corruption);
    }
    Ok(code(damaged.is_empty()))
}

/// Returns the repository into which images are brought. One that is only looked at is not made.
fn target(setup: &Setup, args: &ImportArgs) -> Result<Option<Repository>> {
    if args.dry_run && !setup.default_repository_path()?.exists() {
        return Ok(None);
    }
    Ok(Some(setup.repository_to_write()?.repository))
}

fn code(is_whole: bool) -> ExitCode {
    if is_whole { exit_codes::SUCCESS } else { exit_codes::REPOSITORY }
}

fn execute(
    setup: &Setup,
    source: &UenvRepository,
    target: &Repository,
    plan: &Plan,
    how: Import<'_>,
) -> Result<Imported> {
    let inner = |image: &Path, directory: &Path| inner_metadata(setup, image, directory);
    let size_of = |label: &Label| {
        let planned = plan.labels.iter().find(|one| one.label == *label);
        planned.map_or(0, |one| one.size)
    };
    let mut shown = Shown::new(setup);
    let imported =
        cabane_uenv::import(source, target, plan, how, &inner, &mut |label, done, all| {
            shown.show(label, size_of(label), done, all);
        });
    shown.clear();
    imported
}

/// Takes the metadata out of an image that has none beside it.
fn inner_metadata(setup: &Setup, image: &Path, directory: &Path) -> Result<(), String> {
    let format = ImageFormat::of_path(image).map_err(|error| error.to_string())?;
    let file = open_image(image, format).map_err(|error| error.to_string())?;
    metadata::copy(&file, &setup.mount_methods(), directory).map_err(|error| error.to_string())
}

fn print_plan(setup: &Setup, args: &ImportArgs, plan: &Plan) {
    if args.json {
        setup.printer.json(plan);
        return;
    }
    if !plan.labels.is_empty() {
        setup.printer.data(table(plan));
    }
    let copied = plan.labels.iter().filter(|one| one.fate == Fate::Copied);
    let (count, bytes) = (copied.count(), size(plan.bytes));
    setup.note(format_args!("images that would be copied: {count} ({bytes})"));
}

fn table(plan: &Plan) -> Table {
    let mut table = Table::new(&["label", "id", ">size", "date", ""]);
    for one in &plan.labels {
        let fate = match one.fate {
            Fate::Copied => "is copied",
            Fate::Labelled => "gets the label",
            Fate::Taken => "stays with another image; `--force` takes it",
            Fate::There => "is here",
        };
        table.push(&[
            &one.label,
            &one.digest.id(),
            &size(one.size),
            &one.date.strftime("%F"),
            &fate,
        ]);
    }
    table
}

fn print_imported(setup: &Setup, args: &ImportArgs, imported: &Imported) {
    if args.json {
        setup.printer.json(imported);
        return;
    }
    for label in &imported.differing {
        setup.warning(format_args!(
            "kept the label {label}, which belongs to another image here; `--force` takes it"
        ));
    }
    setup.note(format_args!(
        "images copied: {} ({}), labels given: {}, labels that were there: {}",
        imported.images.len(),
        size(imported.bytes),
        imported.labels.len(),
        imported.unchanged
    ));
}
