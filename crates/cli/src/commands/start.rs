// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane start`: a shell in one or several images.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use cabane_launch::ShellSettings;
use cabane_report::{Kind, Report, Result};
use cabane_site::env_vars;
use clap::Args;

use crate::image_args::{ImageArgs, JoinArgs};
use crate::launch::{finish_shell, launch_plan};
use crate::setup::Setup;

/// Start a shell in images
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane start mpi-python
  cabane start prgenv-gnu/24.11:v1 --view=develop
  cabane start -e ./climate.toml
  cabane start prgenv-gnu,editors:/user-tools --view=prgenv-gnu:default,editors:default

The shell is your own (SHELL), with your aliases and settings. In bash, zsh, and fish, the programs
of the images stay first in PATH, whatever your settings put there. Leave the shell with `exit`.")]
pub(crate) struct StartArgs {
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    join: JoinArgs,
    /// Start a shell even without a terminal
    #[arg(long)]
    ignore_tty: bool,
}

pub(crate) fn start(setup: &Setup, args: &StartArgs) -> Result<()> {
    if let Some(reason) = not_interactive(setup).filter(|_| !args.ignore_tty) {
        let error = format!("`cabane start` starts a shell for a person, but {reason}");
        let hint = "in a script, use `cabane run IMAGE -- COMMAND`; `--ignore-tty` starts the shell anyway";
        return Err(Report::new(Kind::NotStarted, error).hinted(hint.to_owned()));
    }
    let shell = setup.shell();
    setup.detail(format_args!("the shell is {}", shell.display()));
    let plan = launch_plan(&args.images, &args.join)?;
    finish_shell(setup, plan.launch_shell(setup, shell.into_os_string(), ShellSettings::Own)?)
}

/// Returns why no person uses the shell, if that is so.
pub(crate) fn not_interactive(setup: &Setup) -> Option<&'static str> {
    let is_script = setup.calling.contains_key(OsStr::new(env_vars::BASH_EXECUTION_STRING));
    let reasons = [
        (is_script, "it was called by `bash -c`"),
        (!io::stdin().is_terminal(), "standard input is not a terminal"),
        (!io::stdout().is_terminal(), "standard output is not a terminal"),
    ];
    reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason))
}
