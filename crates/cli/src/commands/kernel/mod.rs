// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane kernel`: kernels of Jupyter that run in images.

use std::path::PathBuf;

use cabane_jupyter::Place;
use cabane_report::Result;
use clap::{Args, Subcommand};

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod install;
mod list;

/// What can be done with kernels.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum KernelCommand {
    /// Make images a kernel of Jupyter
    Install(Box<install::InstallArgs>),
    /// List the kernels that Cabane has installed
    #[command(alias = "list")]
    Ls(list::LsArgs),
    /// Remove a kernel that Cabane has installed
    #[command(alias = "rm")]
    Remove(list::RemoveArgs),
}

/// In which directory kernels are.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Your own kernels: `jupyter --data-dir` shows where
    #[arg(long, conflicts_with_all = ["sys_prefix", "prefix"])]
    user: bool,
    /// The kernels of the active Python environment (venv or conda)
    #[arg(long, conflicts_with = "prefix")]
    sys_prefix: bool,
    /// The kernels below a prefix, such as `/usr/local` for all users
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
}

impl PlaceArgs {
    /// Returns what was typed, if anything was.
    fn place(&self) -> Option<Place> {
        let flag = [(self.user, Place::User), (self.sys_prefix, Place::SysPrefix)];
        let flag = flag.into_iter().find_map(|(is_given, place)| is_given.then_some(place));
        self.prefix.clone().map(Place::Prefix).or(flag)
    }
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn kernel(setup: &Setup, command: &KernelCommand) -> Result<ExitCode> {
    match command {
        KernelCommand::Install(args) => install::install(setup, args)?,
        KernelCommand::Ls(args) => list::ls(setup, args)?,
        KernelCommand::Remove(args) => list::remove(setup, args)?,
    }
    Ok(exit_codes::SUCCESS)
}
