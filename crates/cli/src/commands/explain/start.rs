// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `-v` tells before a command starts: where views are in each other's way.
//!
//! Which files there are can only be seen once the images are mounted, and whoever
//! mounts them becomes the command at once. So, if asked for, the command is this
//! program, which looks, tells, and becomes the command that was wanted.

use std::ffi::OsString;
use std::path::Path;

use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_run::become_command;
use cabane_run::inside::Surroundings;
use clap::Args;

use crate::commands::explain::text::short_conflicts;
use crate::commands::run::not_started;
use crate::exit_codes::ExitCode;
use crate::report::CommandResult;
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

pub(crate) fn explain_start(setup: &Setup, args: &ExplainStartArgs) -> CommandResult<ExitCode> {
    let conflicts = Surroundings::look(setup.calling.clone()).conflicts();
    for line in short_conflicts(&conflicts, MOST_LINES) {
        setup.printer.note(line);
    }
    Err(not_started(become_command(args.command.clone())))
}

/// Puts this program before a command, if that was asked for and it can be found inside.
pub(crate) fn explained(
    setup: &Setup,
    environment: &ConcreteEnvironment,
    command: Vec<OsString>,
) -> CommandResult<Vec<OsString>> {
    if !setup.printer.is_verbose() || environment.views.is_empty() {
        return Ok(command);
    }
    let mut words = setup.own_program()?;
    if covering(environment, Path::new(&words[0])).is_some() {
        return Ok(command);
    }
    words.extend(["explain-start".into(), "--".into()]);
    words.extend(command);
    Ok(words)
}

/// Returns the image that is mounted over a file of the host, if there is one.
pub(crate) fn covering<'a>(
    environment: &'a ConcreteEnvironment,
    file: &Path,
) -> Option<&'a ConcreteImage> {
    let mut images = environment.images.iter();
    images.find(|image| file.starts_with(image.mount_point.as_path()))
}
