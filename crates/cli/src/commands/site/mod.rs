// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane site`: the configuration of a site.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use cabane_doctor::{FirstConfiguration, Saved};
use cabane_label::shown;
use cabane_report::{Notices as _, Result};
use clap::{Args, Subcommand};

use crate::printer::Printer;

/// What can be done for a site.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SiteCommand {
    /// Write a first configuration for this machine
    Init(InitArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn site(printer: Printer, command: &SiteCommand) -> Result<()> {
    match command {
        SiteCommand::Init(args) => init(printer, args),
    }
}

/// Write a first configuration for this machine
#[derive(Debug, Args)]
#[command(after_help = "\
The command looks at the kernel, FUSE, Slurm, shared file systems, repositories, mount points, and
devices. It prints config.toml, the settings for all users, and mount.policy, which says what the
set-uid helper and the plugin for Slurm may mount. What was found is in effect; other settings are
examples in comments. With --output, it writes both files. Files that are there are never changed.

Examples:
  cabane site init
  sudo cabane site init --output /etc/cabane")]
pub(crate) struct InitArgs {
    /// Write the files to this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn init(printer: Printer, args: &InitArgs) -> Result<()> {
    let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let first = FirstConfiguration::of_machine(&calling);
    let Some(directory) = &args.output else {
        let FirstConfiguration { config, policy } = &first;
        let line = "#".repeat(78);
        printer
            .data(format_args!("{config}\n{line}\n# /etc/cabane/mount.policy\n{line}\n\n{policy}"));
        return Ok(());
    };
    for saved in first.save(directory)? {
        match saved {
            Saved::Written(path) => printer.note(&format!("wrote {}", shown(&path))),
            Saved::Kept(path) => printer.note(&format!("kept {}, which was there", shown(&path))),
        }
    }
    Ok(())
}
