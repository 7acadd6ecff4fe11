// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane completion`: the completion script of a shell.

use cabane_report::Result;
use clap::{Args, CommandFactory};

use crate::setup::Setup;

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "For bash, add this line to ~/.bashrc: `source <(cabane completion bash)`")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(crate) fn completion(setup: &Setup, args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    let mut command = super::Args::command();
    clap_complete::generate(args.shell, &mut command, "cabane", &mut script);
    setup.printer.data(String::from_utf8_lossy(&script));
    Ok(())
}
