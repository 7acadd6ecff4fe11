// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane clean`: what builds left behind.

use std::path::Path;

use cabane_environment::directories;
use cabane_mount::{Backend, Scope};
use cabane_report::{Result, size};
use cabane_run::not_mounted;
use cabane_site::ASSEMBLY_DIRECTORY;
use clap::Args;

use crate::setup::Setup;

/// Remove files that builds left behind
#[derive(Debug, Args)]
#[command(after_help = "\
The command removes finished builds with their logs, files that your builds left
in memory, what failed builds of other machines left here, and rendezvous files
of processes that have ended. It keeps running builds, and downloads unless you
add --cache. It never removes images from repositories.")]
pub(crate) struct CleanArgs {
    /// Also remove downloads, and images of other users' repositories that were assembled here
    #[arg(long)]
    cache: bool,
    /// Unmount unused images from the mount cache: all as root, otherwise those that you mounted first
    #[arg(long, conflicts_with_all = ["cache", "dry_run"])]
    mounts: bool,
    /// Show what would be removed, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn clean(setup: &Setup, args: &CleanArgs) -> Result<()> {
    if args.mounts {
        return clean_mounts(setup);
    }
    // Without a home there is nothing of either kind.
    let builds = setup.settings.build_directory.value.as_deref();
    for build in builds.map_or_else(Vec::new, cabane_builder::build_directories) {
        if cabane_builder::is_under_way(&build) {
            setup.note(format_args!("kept {}: a build is under way", build.display()));
        } else {
            remove(setup, args, &build)?;
        }
    }
    for build in cabane_remote_build::leftovers(setup).unwrap_or_default() {
        remove(setup, args, &build)?;
    }
    let memory = &setup.settings.memory_directory.value;
    for part in cabane_builder::left_in_memory(memory) {
        remove(setup, args, &part)?;
    }
    if let Some(cache) = setup.settings.cache_directory.value.as_deref().filter(|_| args.cache) {
        let is_there = cache.is_dir() && !args.dry_run;
        let _alone = is_there.then(|| cabane_builder::InUse::alone(cache)).transpose()?;
        let names = cabane_builder::CACHE_DIRECTORIES.iter().copied();
        for name in names.chain([ASSEMBLY_DIRECTORY]) {
            let directory = cache.join(name);
            if directory.is_dir() {
                remove(setup, args, &directory)?;
            }
        }
    }
    for file in cabane_run::sweep(&directories(&setup.calling), args.dry_run) {
        let what = if args.dry_run { "would remove" } else { "removed" };
        setup.note(format_args!("{what} {}", file.display()));
    }
    Ok(())
}

fn clean_mounts(setup: &Setup) -> Result<()> {
    if setup.backend == Backend::Root {
        let count =
            cabane_mount::release(Scope::Unused, 0).map_err(|error| not_mounted(error.into()))?;
        setup.note(format_args!("gave up {count} images"));
        return Ok(());
    }
    match setup.helper() {
        Ok(helper) => {
            cabane_run::clean_through(&helper.path)?;
            setup.note("unmounted your unused images");
        }
        // Without the helper nothing is ever held.
        Err(reason) => setup.note(format_args!("no images are held: {reason}")),
    }
    Ok(())
}

fn remove(setup: &Setup, args: &CleanArgs, directory: &Path) -> Result<()> {
    let bytes = size(cabane_builder::size_of(directory));
    let what = if args.dry_run {
        "would remove"
    } else {
        cabane_builder::remove_tree(directory)?;
        "removed"
    };
    setup.note(format_args!("{what} {} ({bytes})", directory.display()));
    Ok(())
}
