// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane site`: the configuration of a site.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cabane_doctor::{FirstConfiguration, Saved};
use cabane_label::shown;
use cabane_report::{Notices as _, Result, shell_word};
use cabane_site_setup::{Change, set_up};
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
examples in comments. With --output, it writes both files. Existing files are never changed.

With --apply, it sets this machine up: it makes missing mount points and the repository, writes both
files to /etc/cabane, and adds the plugin to plugstack.conf if there is Slurm. It says what it did,
and how to undo that. Existing files are kept, so you can run the command again.

Examples:
  cabane site init
  sudo cabane site init --output /etc/cabane
  sudo cabane site init --apply --repository /shared/cabane/repository")]
pub(crate) struct InitArgs {
    /// Write the files to this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Set this machine up: files in /etc/cabane, mount points, the plugin for Slurm
    #[arg(long, conflicts_with = "output")]
    apply: bool,
    /// The repository for all users; it is made if there is none
    #[arg(long, value_name = "DIR", requires = "apply")]
    repository: Option<PathBuf>,
}

fn init(printer: Printer, args: &InitArgs) -> Result<()> {
    let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    if args.apply {
        return apply(printer, &calling, args.repository.as_deref());
    }
    let first = FirstConfiguration::of_machine(&calling, None);
    let Some(directory) = &args.output else {
        let FirstConfiguration { config, policy, .. } = &first;
        let line = "#".repeat(78);
        printer
            .data(format_args!("{config}\n{line}\n# /etc/cabane/mount.policy\n{line}\n\n{policy}"));
        return Ok(());
    };
    for saved in first.save_new(directory)? {
        match saved {
            Saved::Written(path) => printer.note(&format!("wrote {}", shown(&path))),
            Saved::Kept(path) => printer.note(&format!("kept the existing {}", shown(&path))),
        }
    }
    Ok(())
}

fn apply(
    printer: Printer,
    calling: &BTreeMap<OsString, OsString>,
    repository: Option<&Path>,
) -> Result<()> {
    let changes = set_up(calling, repository, &printer)?;
    for Change { what, undo } in &changes {
        // A path may have a space, and the line is typed as it is.
        let command = undo.iter().map(|words| {
            let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
            format!("\n  undo: {}", words.join(" "))
        });
        let undo: String = command.collect();
        printer.note(&format!("{what}{undo}"));
    }
    printer.hint(
        "do the same on all nodes; check the result with `cabane doctor` and `cabane slurm check`",
    );
    Ok(())
}
