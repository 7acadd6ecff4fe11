// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin of Slurm requests where a job is submitted: images and variables.
//!
//! The answer on standard output is for the plugin: texts, each ended by a zero byte,
//! `NAME=VALUE` for a variable to be set and `NAME` for one to be removed; an empty text is
//! the last. Among the variables is the list of images that the nodes mount.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cabane_environment::ImageRequest;
use cabane_job::{Passthrough, Submission, submit as resolve};
use cabane_mount::{Stage, Unfit};
use cabane_recipe::DeviceRequest;
use cabane_report::{IoContext, Result};
use clap::Args;

use super::container_args::ContainerArgs;
use crate::args::{Choice, one_of};
use crate::setup::Setup;

/// Resolve the images and variables of a job, for the Slurm plugin
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The program that submits
    #[arg(long, value_name = "PROGRAM")]
    from: String,
    /// Search the repositories of Cabane before those of uenv
    #[arg(long)]
    pub(crate) cabane_first: bool,
    /// Images to mount
    #[arg(long, value_name = "IMAGES")]
    uenv: Option<String>,
    /// Views to load
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// An environment file
    #[arg(long, value_name = "NAME|PATH")]
    environment: Option<String>,
    /// Load no view unless one is named
    #[arg(long)]
    no_default_view: bool,
    /// What becomes of images that are loaded here
    #[arg(long = "uenv-passthrough", value_parser = one_of(PASSTHROUGHS))]
    passthrough: Option<Passthrough>,
    /// What becomes of a step on a node that cannot run an image
    #[arg(long = "uenv-unfit", value_parser = one_of(UNFIT))]
    unfit: Option<Unfit>,
    /// Where each node copies the images first
    #[arg(long = "uenv-stage", value_parser = one_of(STAGES))]
    stage: Option<StageOrNone>,
    /// What else is seen in a container image
    #[arg(long = "uenv-bind", value_name = "SOURCE[:TARGET[:ro]]", value_delimiter = ',')]
    binds: Vec<String>,
    /// Hide the home directory in a container image
    #[arg(long = "uenv-no-home")]
    no_home: bool,
    /// Devices of the nodes that the images get
    #[arg(long = "uenv-device", value_name = "DEVICES", value_delimiter = ',')]
    devices: Vec<DeviceRequest>,
    /// Another MPI for the programs of steps
    #[arg(long = "uenv-mpi", value_name = "MPI")]
    mpi: Option<String>,
    /// The file that needs MPI, if the program of a step does not itself
    #[arg(long = "uenv-mpi-program", value_name = "FILE")]
    mpi_program: Option<PathBuf>,
    #[command(flatten)]
    container: ContainerArgs,
}

const UNFIT: &[Choice<Unfit>] = &[
    ("refuse", "It fails before its first task", Unfit::Refuse),
    ("warn", "The user is warned", Unfit::Warn),
];

type StageOrNone = Option<Stage>;

const STAGES: &[Choice<StageOrNone>] = &[
    ("no", "Nowhere: they are mounted from where they are", None),
    ("memory", "In its memory", Some(Stage::Memory)),
    ("local", "In the directory that the site names", Some(Stage::Local)),
];

const PASSTHROUGHS: &[Choice<Passthrough>] = &[
    ("use", "The job has them, beside those that are named", Passthrough::Use),
    ("ignore", "The job does not have them", Passthrough::Ignore),
    ("disable", "It is an error, unless images are named", Passthrough::Disable),
];

impl SubmitArgs {
    pub(crate) fn request(&self) -> Submission {
        Submission {
            from: self.from.clone(),
            images: ImageRequest {
                images: self.uenv.clone(),
                environment: self.environment.clone(),
                view: self.view.clone(),
                no_default_view: self.no_default_view,
                ..ImageRequest::default()
            },
            passthrough: self.passthrough,
            unfit: self.unfit,
            stage: self.stage,
            container: self.container.request(),
            binds: self.binds.clone(),
            no_home: self.no_home,
            devices: self.devices.clone(),
            mpi: self.mpi.clone(),
            mpi_program: self.mpi_program.clone(),
        }
    }
}

pub(crate) fn submit(setup: &Setup, args: &SubmitArgs) -> Result<()> {
    submit_request(setup, &args.request())
}

/// Resolves what is requested, and answers the plugin.
///
/// # Errors
///
/// As [`resolve`].
pub(crate) fn submit_request(setup: &Setup, request: &Submission) -> Result<()> {
    answer(&setup.calling, &resolve(setup, request)?)
}

fn answer(
    before: &BTreeMap<OsString, OsString>,
    after: &BTreeMap<OsString, OsString>,
) -> Result<()> {
    let mut bytes = Vec::new();
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        bytes.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        bytes.extend([name.as_bytes(), b"\0"].concat());
    }
    bytes.push(0);
    std::io::stdout().write_all(&bytes).or_failed(|| "answer".to_owned())
}
