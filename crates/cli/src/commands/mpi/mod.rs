// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: the MPI of programs, machines and images.

use std::path::PathBuf;

use cabane_mpi_swap::{inspect_in_images, inspect_paths};
use cabane_report::Result;
use clap::{Args, Subcommand};

use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::image_args::InsideArgs;
use crate::setup::Setup;

mod audit;
mod swap;
mod text;

/// What can be done with MPI.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MpiCommand {
    /// Show which MPI a program, library, or directory needs or provides
    Inspect(InspectArgs),
    /// Run a command with a different MPI
    Swap(swap::SwapArgs),
    /// Test every MPI of this system and sort them by what works
    Audit(audit::AuditArgs),
}

pub(crate) fn mpi(setup: &Setup, command: &MpiCommand) -> Result<ExitCode> {
    match command {
        MpiCommand::Inspect(args) => inspect(setup, args)?,
        MpiCommand::Swap(args) => swap::swap(setup, args)?,
        MpiCommand::Audit(args) => return audit::audit(setup, args),
    }
    Ok(exit_codes::SUCCESS)
}

/// Show which MPI a program, library, or directory needs or provides
#[derive(Debug, Args)]
#[command(after_help = "\
No program is run: the command reads the files and searches libraries as the loader does,
with the current LD_LIBRARY_PATH.

Examples:
  cabane mpi inspect ./solver
  cabane mpi inspect /opt/mpich                      a prefix, with its launchers
  cabane mpi inspect /usr/lib64/libmpi.so.40
  cabane mpi inspect --root /mnt/container /usr/bin/app
  cabane mpi inspect --in solver/1.0 solver --json")]
pub(crate) struct InspectArgs {
    /// Programs, libraries, Python extensions, or directories; a name without `/` is a program in PATH
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Take this directory as the root file system
    #[arg(long, value_name = "DIR", conflicts_with = "images")]
    root: Option<PathBuf>,
    #[command(flatten)]
    inside: InsideArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn inspect(setup: &Setup, args: &InspectArgs) -> Result<()> {
    let all = match &args.inside.request() {
        Some(images) => inspect_in_images(setup, images, &args.paths)?,
        None => inspect_paths(setup, args.root.as_deref(), &args.paths)?,
    };
    let texts = || all.iter().map(text::inspected).collect::<Vec<_>>();
    setup.printer.data(if args.json { json(&all) } else { texts().join("\n") });
    Ok(())
}
