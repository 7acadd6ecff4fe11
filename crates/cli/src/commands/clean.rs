// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane clean`: what builds left behind.

use std::path::Path;

use clap::Args;

use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::report::CommandResult;
use crate::setup::Setup;
use crate::table::size;

/// Remove what builds left behind
#[derive(Debug, Args)]
#[command(after_help = "\
Finished builds are removed with their logs; a build that is under way is kept. What
was downloaded is kept as well, unless --cache is given. Images in repositories are
never touched.")]
pub(crate) struct CleanArgs {
    /// Remove what was downloaded, too
    #[arg(long)]
    cache: bool,
    /// Tell what would be removed, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn clean(setup: &Setup, args: &CleanArgs) -> CommandResult<ExitCode> {
    for build in cabane_build::build_directories(&setup.settings.build_directory.value) {
        if cabane_build::is_under_way(&build) {
            setup.printer.note(format_args!(
                "kept {}: a build is under way",
                build.display()
            ));
        } else {
            remove(setup, args, &build)?;
        }
    }
    if args.cache {
        for name in cabane_build::CACHE_DIRECTORIES {
            let directory = setup.settings.cache_directory.value.join(name);
            if directory.is_dir() {
                remove(setup, args, &directory)?;
            }
        }
    }
    Ok(exit_codes::SUCCESS)
}

fn remove(setup: &Setup, args: &CleanArgs, directory: &Path) -> CommandResult<()> {
    let bytes = size(cabane_build::size_of(directory));
    if args.dry_run {
        setup.printer.note(format_args!(
            "would remove {} ({bytes})",
            directory.display()
        ));
        return Ok(());
    }
    cabane_build::remove_tree(directory).map_err(convert::build_error)?;
    setup
        .printer
        .note(format_args!("removed {} ({bytes})", directory.display()));
    Ok(())
}
