// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv start`, `uenv run`, and what the plugin of Slurm asks.

use std::ffi::OsStr;

use cabane_job::Passthrough;
use cabane_launch::{LaunchPlan, ShellSettings};
use cabane_report::{Kind, Report, Result};
use cabane_run::loaded::{CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW};

use super::args::{EnvironmentArgs, RunArgs, StartArgs};
use super::{check_named, words};
use crate::commands::slurm::submit::submit_request;
use crate::commands::slurm::{SlurmCommand, slurm as answer};
use crate::commands::start::not_interactive;
use crate::exit_codes::{self, ExitCode};
use crate::launch::{finish, finish_shell};
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
                     'uenv start' and 'uenv run' do not work in it";
        return Err(Report::new(Kind::Failure, error).hinted(
            "leave it with `exit`; under the name `cabane`, environments can be nested".to_owned(),
        ));
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
    let shell = setup.shell().into_os_string();
    let launch = plan.launch_shell(setup, shell, ShellSettings::Own);
    finish_shell(setup, launch.map_err(|error| words::explained(setup, &plan.images, error))?)
}

/// Answers the plugin of Slurm, and explains errors in the words of uenv.
///
/// A list of mounts that nothing but its variable tells of was set for the job: it is handed on.
pub(super) fn slurm(setup: &Setup, command: &SlurmCommand) -> Result<ExitCode> {
    let SlurmCommand::Submit(args) = command else {
        return answer(setup, command);
    };
    let mut request = args.request();
    let is_set = |name: &str| setup.calling.contains_key(OsStr::new(name));
    if is_set(UENV_MOUNT_LIST) && ![UENV_VIEW, CABANE_LOADED].into_iter().any(is_set) {
        let is_requested = request.images.images.is_some() || request.images.environment.is_some();
        request.passthrough = request.passthrough.or((!is_requested).then_some(Passthrough::Use));
    }
    let images = &request.images;
    words::refuse_duplicates(setup, images)?;
    submit_request(setup, &request).map_err(|error| words::explained(setup, images, error))?;
    Ok(exit_codes::SUCCESS)
}
