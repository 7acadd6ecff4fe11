// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo migrate`: a repository at another place.

use std::path::PathBuf;

use cabane_label::Label;
use cabane_report::size;
use cabane_repository::{Error, Migrated, Migration, Repository};
use cabane_site::open_repository;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::repo::maintain::repository_at;
use crate::exit_codes::{self, ExitCode};
use crate::printer::Printer;
use crate::report::CommandResult;
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

pub(crate) fn migrate(setup: &Setup, args: &MigrateArgs) -> CommandResult<ExitCode> {
    let (source, target) = match args.paths.as_slice() {
        [source, target] => (Some(source.as_path()), target),
        [target, ..] => (None, target),
        [] => return Ok(exit_codes::USAGE),
    };
    let source = repository_at(setup, source)?;
    let target = match open_repository(target) {
        Err(Error::NotARepository { .. }) => {
            let made = Repository::create(target)?;
            setup.printer.note(format_args!("made the repository {}", made.path().display()));
            made
        }
        opened => opened?,
    };
    let mut shown = Shown::new(setup.printer);
    let how = Migration { sync: args.sync, replace: args.force };
    let migrated = source.migrate_to(&target, how, &mut |record, done, total| {
        shown.tell(&record.label, record.size, done, total);
    });
    shown.clear();
    tell(setup, &migrated?)
}

fn tell(setup: &Setup, migrated: &Migrated) -> CommandResult<ExitCode> {
    for label in &migrated.differing {
        setup.printer.warning(&format!(
            "kept the label {label}, which belongs to another image there; `--force` takes it"
        ));
    }
    for (label, reason) in &migrated.failed {
        setup.printer.warning(&format!("left out {label}: {reason}"));
    }
    setup.printer.note(format_args!(
        "images copied: {}, labels given: {}, labels that were there: {}",
        migrated.images.len(),
        migrated.labels.len(),
        migrated.unchanged
    ));
    Ok(if migrated.failed.is_empty() { exit_codes::SUCCESS } else { exit_codes::REPOSITORY })
}

/// Shows how far it is: a line that moves on terminals, one for each image elsewhere.
pub(crate) struct Shown {
    printer: Printer,
    bar: Option<ProgressBar>,
    last: Option<String>,
}

impl Shown {
    pub(crate) fn new(printer: Printer) -> Self {
        Self { printer, bar: None, last: None }
    }

    pub(crate) fn tell(&mut self, label: &Label, bytes: u64, done: u64, total: u64) {
        let label = label.to_string();
        if self.last.as_ref() != Some(&label) {
            self.clear();
            if Printer::is_watched() {
                self.bar = Some(bar(&label, total));
            } else {
                let size = size(bytes);
                self.printer.note(format_args!("copying {label} ({size})"));
            }
            self.last = Some(label);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(label: &str, total: u64) -> ProgressBar {
    const TEMPLATE: &str = "{msg} {decimal_bytes} of {decimal_total_bytes}, \
                            {decimal_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(TEMPLATE);
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
