// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is requested where a job is submitted.

use std::path::PathBuf;

use cabane_environment::ImageRequest;
use cabane_mount::{Stage, Unfit};
use cabane_recipe::DeviceRequest;

use crate::containers::ContainerRequest;

/// What a job is to have.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The program that submits, such as `srun`.
    pub from: String,
    /// The images and views.
    pub images: ImageRequest,
    /// What becomes of images that are loaded here, if stated.
    pub passthrough: Option<Passthrough>,
    /// What becomes of a step on a node that cannot run an image, if stated.
    pub unfit: Option<Unfit>,
    /// Where each node copies the images first, if stated: nowhere, or to a stage.
    pub stage: Option<Option<Stage>>,
    /// What was requested in the words of pyxis.
    pub container: ContainerRequest,
    /// Files and directories that are visible in a container image: `SOURCE[:TARGET[:ro]]`.
    pub binds: Vec<String>,
    /// Whether the home directory is hidden in a container image.
    pub no_home: bool,
    /// Devices of the nodes that the images get.
    pub devices: Vec<DeviceRequest>,
    /// The MPI that replaces that of the programs of steps.
    pub mpi: Option<String>,
    /// The file that needs MPI, if the program of a step does not itself.
    pub mpi_program: Option<PathBuf>,
}

/// What becomes of images that are loaded where a job is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passthrough {
    /// The job has them, beside those that are named.
    Use,
    /// The job does not have them.
    Ignore,
    /// It is an error, unless images are named.
    Disable,
}

impl Submission {
    pub(crate) fn is_requested(&self) -> bool {
        self.images.images.is_some() || self.images.environment.is_some()
    }
}
