// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane attach`: a shell or command beside a process that runs in images.

use std::ffi::OsString;

use cabane_environment::{ImageRequest, find_environment};
use cabane_report::{Kind, Report, Result};
use cabane_run::{Attachment, JobDescription, JobError, Target};
use clap::Args;

use crate::setup::Setup;

/// Run a shell or a command in the environment of a running process or job
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane attach 4711
  cabane attach 4711 -- gdb -p 4711
  cabane attach 4711 --with debuggers -- gdb -p 4711
  cabane attach 12345.0

The command sees the files and variables of the process. Only the command sees images from
--with; the process does not.

A job stands for your first process of that job on this node; JOB.batch is the batch script.")]
pub(crate) struct AttachArgs {
    /// The ID of one of your processes that runs in images, or a Slurm job with images on this node: JOB, JOB.STEP, or `ARRAY_TASK`
    #[arg(value_name = "PID|JOB[.STEP]")]
    target: JobDescription,
    /// Take the number as a process ID
    #[arg(long)]
    process: bool,
    /// Take the number as a job ID
    #[arg(long, conflicts_with = "process")]
    job: bool,
    /// More images for this command only, as in `cabane run`
    #[arg(long, value_name = "IMAGES")]
    with: Option<String>,
    /// Views of these images to load, in this order: VIEW or IMAGE:VIEW, separated by commas
    #[arg(long, value_name = "VIEWS", requires = "with")]
    view: Option<String>,
    /// The command and its arguments, after `--`; default: your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn attach(setup: &Setup, args: &AttachArgs) -> Result<()> {
    let target = find(args)?;
    let request = |images: &String| ImageRequest::new(images, args.view.as_deref(), false);
    let with = args.with.as_ref().map(|images| find_environment(setup, &request(images)));
    let with = with.transpose().map_err(|error| error.with_kind(Kind::NotStarted))?;
    let command = if args.command.is_empty() {
        vec![setup.shell().into_os_string()]
    } else {
        args.command.clone()
    };
    let attachment = Attachment {
        target,
        with,
        backend: setup.backend,
        helper: setup.helper(),
        fuse: setup.fuse.clone(),
        calling: setup.calling.clone(),
        command,
    };
    Err(attachment.exec(|warning| setup.warning(warning)))
}

/// A number alone may be that of a process or of a job; both are tried, unless an option decides.
fn find(args: &AttachArgs) -> Result<Target> {
    let Some(number) = args.target.number().filter(|_| !args.job) else {
        return Target::open(args.target.find()?);
    };
    let process = Target::open(number);
    if args.process {
        return process;
    }
    match (process, args.target.find()) {
        (Ok(_), Ok(_) | Err(JobError::SeveralSteps(_))) => {
            let message = format!("{number} is the number of a process and of a job");
            Err(Report::new(Kind::NotStarted, message).hinted(format!(
                "`cabane attach --process {number}` or `cabane attach --job {number}`"
            )))
        }
        (Err(_), Ok(first)) => Target::open(first),
        (Err(_), Err(JobError::SeveralSteps(error) | JobError::NoImages(error))) => Err(error),
        (process, Err(_)) => process,
    }
}
