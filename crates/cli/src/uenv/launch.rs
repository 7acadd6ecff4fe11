// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv start`, `uenv run`, and what the plugin of Slurm asks.

use std::ffi::OsStr;

use cabane_launch::LaunchPlan;
use cabane_report::{Kind, Report, Result};
use cabane_run::loaded::{UENV_MOUNT_LIST, UENV_VIEW};

use super::args::{EnvironmentArgs, RunArgs, StartArgs};
use super::{check_named, words};
use crate::commands::slurm::{SlurmCommand, slurm as answer};
use crate::commands::start::not_interactive;
use crate::exit_codes::ExitCode;
use crate::launch::finish;
use crate::setup::Setup;

/// Returns the plan for what was typed.
///
/// # Errors
///
/// An environment is around this process, a repository is missing, or an image is named twice.
fn plan(setup: &Setup, args: &EnvironmentArgs) -> Result<LaunchPlan> {
    if [UENV_MOUNT_LIST, UENV_VIEW].iter().all(|name| setup.calling.contains_key(OsStr::new(name)))
    {
        let error = "a uenv session is already running: \
                     'uenv start' and 'uenv run' do not work inside of one";
        return Err(Report::new(Kind::Failure, error)
            .hinted("leave it with `exit`, or nest environments with `cabane run`".to_owned()));
    }
    check_named(setup)?;
    let images = args.request();
    words::refuse_duplicates(setup, &images)?;
    Ok(LaunchPlan { images, join: args.join(), shows_conflicts: true, ..LaunchPlan::default() })
}

pub(super) fn run(setup: &Setup, args: &RunArgs) -> Result<()> {
    let plan = plan(setup, &args.environment)?;
    let launch = plan.launch(setup, args.command.clone());
    finish(setup, launch.map_err(|error| words::explained(setup, &plan.images, error))?)
}

pub(super) fn start(setup: &Setup, args: &StartArgs) -> Result<()> {
    let plan = plan(setup, &args.environment)?;
    if let Some(reason) = not_interactive(setup).filter(|_| !args.ignore_tty) {
        let error = format!("'uenv start' must be run in an interactive shell: {reason}");
        let hint =
            "in a script, use `uenv run IMAGE -- COMMAND`; `--ignore-tty` starts the shell anyway";
        return Err(Report::new(Kind::NotStarted, error).hinted(hint.to_owned()));
    }
    let launch = plan.launch_shell(setup, setup.shell().into_os_string());
    finish(setup, launch.map_err(|error| words::explained(setup, &plan.images, error))?)
}

/// Answers the plugin of Slurm, and explains errors in the words of uenv.
pub(super) fn slurm(setup: &Setup, command: &SlurmCommand) -> Result<ExitCode> {
    let SlurmCommand::Submit(args) = command else {
        return answer(setup, command);
    };
    let images = args.request().images;
    words::refuse_duplicates(setup, &images)?;
    answer(setup, command).map_err(|error| words::explained(setup, &images, error))
}
