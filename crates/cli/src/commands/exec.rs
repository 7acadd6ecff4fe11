// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane exec` and `cabane shell`: as `run` and `start`, with the syntax of Apptainer.

use std::ffi::OsString;
use std::path::PathBuf;

use cabane_launch::ShellSettings;
use cabane_report::Result;
use clap::Args;

use crate::apptainer::ApptainerArgs;
use crate::launch::{finish, finish_shell};
use crate::setup::Setup;

/// Run a command in a container image, with the syntax of Apptainer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane exec docker://quay.io/biocontainers/samtools:1.19.2--h50ea8bc_1 samtools --version
  cabane exec --nv ./pytorch.sif python train.py
  cabane exec --bind /scratch/input:/data:ro --cleanenv tool.sif tool /data/a.dat

`cabane run` does the same with stacks, views, and environment files. If Cabane does not
support an option of Apptainer, the error says what to use instead.")]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    options: ApptainerArgs,
    /// The image: a container image such as `docker://HOST/NAME:TAG` or `FILE.sif`, or a label
    image: String,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn exec(setup: &Setup, args: &ExecArgs) -> Result<()> {
    let plan = args.options.plan(setup, &args.image)?;
    finish(setup, plan.launch(setup, args.command.clone())?)
}

/// Start a shell in a container image, with the syntax of Apptainer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane shell ./tool.sif
  cabane shell --nv docker://nvcr.io/nvidia/pytorch:24.09-py3

As with Apptainer, bash does not read `~/.bashrc`. `cabane start` and `--shell /bin/bash` do.")]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    options: ApptainerArgs,
    /// The shell, a path inside; default: your own (SHELL), /bin/bash, or /bin/sh
    #[arg(short, long, value_name = "PATH")]
    shell: Option<PathBuf>,
    /// The image: a container image such as `docker://HOST/NAME:TAG` or `FILE.sif`, or a label
    image: String,
}

pub(crate) fn shell(setup: &Setup, args: &ShellArgs) -> Result<()> {
    let plan = args.options.plan(setup, &args.image)?;
    let (shell, settings) = match &args.shell {
        Some(shell) => (shell.clone(), ShellSettings::Own),
        None => (setup.shell(), ShellSettings::None),
    };
    finish_shell(setup, plan.launch_shell(setup, shell.into_os_string(), settings)?)
}
