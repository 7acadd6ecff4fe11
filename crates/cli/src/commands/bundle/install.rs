// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane bundle install`: from a bundle into the repository.

use std::path::PathBuf;

use cabane_label::LabelPattern;
use cabane_report::{Result, size};
use cabane_transfer::{InstallRequest, open_bundle, plan_install};
use clap::Args;

use crate::added::print_changes;
use crate::setup::Setup;

/// Add the images of a bundle to the repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane bundle install june.bundle
  cabane bundle install /media/stick/june.bundle cp2k
  cabane bundle install june.bundle --dry-run

Signatures and channels are checked as in a registry, before anything is added.
Names follow the channels in the bundle: `cabane start prgenv-gnu:stable`.
`cabane registry mirror june.bundle URL` copies the images to a registry
instead.")]
pub(crate) struct InstallArgs {
    /// The bundle, or its first piece
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Only these images; default: all for this system
    #[arg(value_name = "LABEL")]
    patterns: Vec<LabelPattern>,
    /// Move labels from other images of the repository
    #[arg(long)]
    force: bool,
    /// List what would be added, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn install(setup: &Setup, args: &InstallArgs) -> Result<()> {
    let bundle = open_bundle(setup, &args.path)?;
    let request = InstallRequest { patterns: args.patterns.clone(), force: args.force };
    let plan = plan_install(setup, &bundle, &request)?;
    if !args.dry_run {
        return plan.execute(setup, &mut |added| print_changes(setup, added));
    }
    for planned in plan.images.iter().filter(|planned| !planned.is_here) {
        let (place, whole) = (planned.listed.place(), size(planned.listed.size));
        setup.printer.data(format_args!("{place}  {whole}\n"));
    }
    let new = plan.images.iter().filter(|planned| !planned.is_here).count();
    let all = plan.images.len();
    setup.note(format_args!("{new} of {all} images would be added"));
    Ok(())
}
