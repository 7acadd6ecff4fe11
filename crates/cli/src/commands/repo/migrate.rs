// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo migrate`: a repository at another place.

use std::path::PathBuf;

use cabane_report::Result;
use cabane_repository::{Error, Migrated, Migration, Repository};
use cabane_site::open_repository;
use clap::Args;

use crate::commands::repo::maintain::repository_at;
use crate::commands::repo::progress::Shown;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Copy all images of a repository to another one
#[derive(Debug, Args)]
#[command(override_usage = "cabane repo migrate [OPTIONS] [SOURCE] <TARGET>")]
#[command(after_help = "\
The target is created if it does not exist. Images that are already there are skipped, so
you can repeat an interrupted migration. Pins are copied, too. The source is not changed.

Examples:
  cabane repo migrate /scratch/alice/repository
  cabane repo migrate /old/repository /new/repository --sync")]
pub(crate) struct MigrateArgs {
    /// The source and the target; with one path, the source is the repository for new images
    #[arg(required = true, num_args = 1..=2, value_name = "PATHS")]
    paths: Vec<PathBuf>,
    /// Add to a repository that already has labels
    #[arg(long)]
    sync: bool,
    /// Move labels from the images that have them there
    #[arg(long)]
    force: bool,
}

pub(crate) fn migrate(setup: &Setup, args: &MigrateArgs) -> Result<ExitCode> {
    let (source, target) = match args.paths.as_slice() {
        [source, target] => (Some(source.as_path()), target),
        [target, ..] => (None, target),
        [] => return Ok(exit_codes::USAGE),
    };
    let source = repository_at(setup, source)?;
    let target = match open_repository(target) {
        Err(Error::NotARepository { .. }) => {
            let made = Repository::create(target)?;
            setup.note(format_args!("made the repository {}", made.path().display()));
            made
        }
        opened => opened?,
    };
    let mut shown = Shown::new(setup);
    let how = Migration { sync: args.sync, replace: args.force };
    let migrated = source.migrate_to(&target, how, &mut |record, done, total| {
        shown.show(&record.label, record.size, done, total);
    });
    shown.clear();
    print(setup, &migrated?)
}

fn print(setup: &Setup, migrated: &Migrated) -> Result<ExitCode> {
    for label in &migrated.differing {
        setup.warning(format_args!(
            "kept the label {label}, which belongs to another image there; `--force` takes it"
        ));
    }
    for (label, reason) in &migrated.failed {
        setup.warning(format_args!("left out {label}: {reason}"));
    }
    setup.note(format_args!(
        "images copied: {}, labels given: {}, labels that were there: {}",
        migrated.images.len(),
        migrated.labels.len(),
        migrated.unchanged
    ));
    Ok(if migrated.failed.is_empty() { exit_codes::SUCCESS } else { exit_codes::REPOSITORY })
}
