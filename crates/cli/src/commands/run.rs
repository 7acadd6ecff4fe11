// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane run`: one command in one or several images.

use std::ffi::OsString;

use cabane_label::is_container;
use cabane_launch::LaunchPlan;
use cabane_report::{Kind, Report, Result};
use clap::Args;

use crate::image_args::{ImageArgs, JoinArgs};
use crate::launch::{finish, launch_plan};
use crate::setup::Setup;

/// Run a command in images
#[derive(Debug, Args)]
#[command(override_usage = "\
cabane run [OPTIONS] IMAGES [--] [COMMAND]...
       cabane run [OPTIONS] --environment <NAME|PATH> [IMAGES] -- [COMMAND]...")]
#[command(after_help = "\
Examples:
  cabane run mpi-python mpiexec -n 4 python solver.py
  cabane run prgenv-gnu/24.11:v1,editors --view=prgenv-gnu:develop -- make
  cabane run ./image.squashfs:/user-environment -- cmake --version
  cabane run --environment climate -- make
  cabane run debian/12 -- cat /etc/os-release
  cabane run --bind /scratch/input:/data:ro samtools/1.19 -- samtools view /data/a.bam

The command gets standard input and all signals, and its exit code is returned. If the command
did not start, the exit code is 125, 126, or 127; with --mpi, it can also be 14.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    join: JoinArgs,
    /// The command and its arguments; default: the default command of the container image
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunArgs {
    /// Returns what was typed, where everything after the first `--` is the command: also its first
    /// word, which is read as an image where none was named. Without `--`, the words after a container
    /// image that is imported here are arguments of its entry point. `typed` is the whole command line.
    pub(crate) fn settled(mut self, typed: &[OsString]) -> Self {
        let words = self.command.len() + usize::from(self.images.images.is_some());
        let dashes = typed.iter().position(|word| word == "--");
        if dashes.is_some_and(|dashes| typed.len() - dashes - 1 == words) {
            let first = self.images.images.take().map(OsString::from);
            self.command.splice(0..0, first);
        }
        // As other runtimes do with words that follow a container image.
        let is_container = self.images.images.as_deref().is_some_and(is_container);
        if is_container && dashes.is_none() && !self.command.is_empty() {
            self.images.root.entrypoint = true;
        }
        self
    }
}

pub(crate) fn run(setup: &Setup, args: &RunArgs) -> Result<()> {
    if !args.images.are_named() {
        let hint = "name one: `cabane run IMAGE -- COMMAND`; `cabane image ls` lists the images";
        return Err(Report::new(Kind::Usage, "no image is named").hinted(hint.to_owned()));
    }
    let plan = launch_plan(&args.images, &args.join)?;
    finish(setup, plan.launch(setup, args.command.clone())?)
}

/// Run a command according to a plan in JSON
#[derive(Debug, Args)]
pub(crate) struct RunPlanArgs {
    /// The environment, and how it is entered
    plan: String,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub(crate) fn run_plan(setup: &Setup, args: &RunPlanArgs) -> Result<()> {
    let plan: LaunchPlan =
        serde_json::from_str(&args.plan).map_err(|error| Report::new(Kind::NotStarted, error))?;
    finish(setup, plan.launch(setup, args.command.clone())?)
}
