// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache`: what builds leave for the next ones.

use std::path::{Path, PathBuf};

use cabane_report::Result;
use clap::{Args, Subcommand};

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod gc;
mod ls;
mod push;
mod verify;

/// What can be done with the cache of builds.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CacheCommand {
    /// List the packages, sources, and concretized specs in the build cache
    Ls(ls::LsArgs),
    /// Remove items that no build used recently, or that exceed a size limit
    Gc(gc::GcArgs),
    /// Copy packages into a build cache that any Spack can use
    Push(push::PushArgs),
    /// Compare packages with their checksums, and check their signatures
    Verify(verify::VerifyArgs),
}

/// Which cache.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// The cache directory; default: the one of your builds
    #[arg(long, value_name = "DIRECTORY")]
    cache: Option<PathBuf>,
}

impl CacheArgs {
    fn directory<'a>(&'a self, setup: &'a Setup) -> Result<&'a Path> {
        match &self.cache {
            Some(directory) => Ok(directory),
            None => Ok(setup.settings.cache_directory.directory()?),
        }
    }
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn cache(setup: &Setup, command: &CacheCommand) -> Result<ExitCode> {
    let done = |outcome: Result<()>| outcome.map(|()| exit_codes::SUCCESS);
    match command {
        CacheCommand::Ls(args) => done(ls::ls(setup, args)),
        CacheCommand::Gc(args) => done(gc::gc(setup, args)),
        CacheCommand::Push(args) => done(push::push(setup, args)),
        CacheCommand::Verify(args) => verify::verify(setup, args),
    }
}
