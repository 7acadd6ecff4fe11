// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From options to a launch, and its `--dry-run` output.

use cabane_launch::{Launch, LaunchPlan};
use cabane_report::Result;
use cabane_run::{Prepared, RunWarning};

use crate::image_args::{ImageArgs, JoinArgs};
use crate::setup::Setup;

/// Returns the plan for what was typed.
///
/// # Errors
///
/// Options that are malformed.
pub(crate) fn launch_plan(args: &ImageArgs, join: &JoinArgs) -> Result<LaunchPlan> {
    Ok(LaunchPlan {
        images: args.request(),
        root: args.root.options()?,
        join: join.options(),
        mpi: args.root.mpi.clone(),
        mpi_program: args.root.mpi_program.clone(),
        is_dry_run: args.dry_run,
        shows_conflicts: true,
        ..LaunchPlan::default()
    })
}

/// Replaces this process with the command, or shows what would be done.
pub(crate) fn finish(setup: &Setup, launch: Launch) -> Result<()> {
    if launch.is_dry_run {
        setup.printer.data(describe(setup, &launch.prepared));
        return Ok(());
    }
    Err(launch.prepared.exec(|warning: &RunWarning| setup.warning(warning)))
}

/// Does the same with a shell, unless it would be in the environment that is around it.
pub(crate) fn finish_shell(setup: &Setup, launch: Option<Launch>) -> Result<()> {
    if let Some(launch) = launch {
        return finish(setup, launch);
    }
    setup.note("this shell is already in this environment; nothing was started");
    Ok(())
}

/// The mount plan, then every variable that changes.
fn describe(setup: &Setup, prepared: &Prepared) -> String {
    let mut text = prepared.plan().to_string();
    if let Some(directory) = prepared.working_directory() {
        text += &format!("start in {}\n", directory.display());
    }
    for (name, value) in prepared.variables() {
        if setup.calling.get(name) != Some(value) {
            text += &format!("set {}={}\n", name.display(), value.display());
        }
    }
    for name in setup.calling.keys() {
        if !prepared.variables().contains_key(name) {
            text += &format!("unset {}\n", name.display());
        }
    }
    text
}
