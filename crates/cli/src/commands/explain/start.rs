// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `-v` tells before a command starts: where views are in each other's way.
//!
//! Which files there are can only be seen once the images are mounted, and anyone who
//! mounts them becomes the command at once. So, if requested, the command is this
//! program, which looks, tells, and becomes the command that was wanted.

use std::ffi::OsString;

use cabane_launch::become_other;
use cabane_report::Result;
use cabane_run::inside::ProcessEnvironment;
use clap::Args;

use crate::commands::explain::text::short_conflicts;
use crate::setup::Setup;

/// The lines that are printed before a command starts.
const MOST_LINES: usize = 10;

/// Show conflicts, then run a command
#[derive(Debug, Args)]
pub(crate) struct ExplainStartArgs {
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn explain_start(setup: &Setup, args: &ExplainStartArgs) -> Result<()> {
    let conflicts = ProcessEnvironment::look(setup.calling.clone()).conflicts();
    for line in short_conflicts(&conflicts, MOST_LINES) {
        setup.note(line);
    }
    Err(become_other(args.command.clone()))
}
