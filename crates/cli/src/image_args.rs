// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options about images that several commands have.

use std::path::PathBuf;

use cabane_environment::{ImageRequest, JoinOptions, RootOptions};
use cabane_recipe::DeviceRequest;
use clap::Args;

/// Which images and views to load.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas. Also the path of an environment file, which ends in .toml
    #[arg(value_name = "IMAGES", required_unless_present = "environment")]
    pub(crate) images: Option<String>,
    /// An environment file, by path or by name; images on the command line are added to it
    #[arg(short, long, value_name = "NAME|PATH")]
    environment: Option<String>,
    /// Views to load, in this order: VIEW or IMAGE:VIEW, separated by commas; IMAGE is a name, a label, or a mount point. They replace the views of an environment file
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    #[command(flatten)]
    pub(crate) root: RootArgs,
    /// Print what would be mounted and set, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl ImageArgs {
    /// Whether there is anything to load.
    pub(crate) fn are_named(&self) -> bool {
        self.images.is_some() || self.environment.is_some()
    }

    /// Returns what was typed.
    pub(crate) fn request(&self) -> ImageRequest {
        ImageRequest {
            images: self.images.clone(),
            environment: self.environment.clone(),
            view: self.view.clone(),
            no_default_view: self.no_default_view,
            tells_choice: self.dry_run,
            ..ImageRequest::default()
        }
    }
}

/// Into which environment to look.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Inspect an environment with these images instead of the current one
    #[arg(long = "in", value_name = "IMAGES")]
    images: Option<String>,
    /// The views of that environment
    #[arg(long, value_name = "VIEWS", requires = "images")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, requires = "images", conflicts_with = "view")]
    no_default_view: bool,
}

impl InsideArgs {
    /// Returns what to load, unless the environment around is meant.
    pub(crate) fn request(&self) -> Option<ImageRequest> {
        let images = self.images.as_deref()?;
        let request = ImageRequest::new(images, self.view.as_deref(), self.no_default_view);
        Some(request.telling_choice())
    }
}

/// What else is seen inside, and how a container image is entered.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RootArgs {
    /// Show a file or directory of this system inside, at the same or another path; `ro` for read-only
    #[arg(short, long = "bind", value_name = "SOURCE[:TARGET[:ro]]")]
    binds: Vec<String>,
    /// Give a container image a device of this system, with its libraries: `VENDOR/CLASS=NAME`, `all`, or `none` to ignore the devices of the site and of the environment file. Repeatable
    #[arg(long = "device", value_name = "DEVICE")]
    devices: Vec<DeviceRequest>,
    /// Make the root file system of a container image writable: in memory, or with the changes kept in a directory. Unless you have root, you appear as root inside
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "not given, given, given with a directory")]
    writable: Option<Option<PathBuf>>,
    /// Hide the home directory in a container image
    #[arg(long)]
    no_home: bool,
    /// Use a different MPI for the command: a name from the configuration, a prefix or a library, an image with an MPI, or `host`; an MPI that cannot work is refused
    #[arg(long, value_name = "MPI")]
    pub(crate) mpi: Option<String>,
    /// The file that needs MPI, if the command does not: for example a Python extension, by its path inside
    #[arg(long, value_name = "PATH", requires = "mpi")]
    pub(crate) mpi_program: Option<PathBuf>,
    /// Run the entry point of a container image, with the arguments after `--`
    #[arg(long)]
    entrypoint: bool,
}

impl RootArgs {
    /// Returns these options, without those about MPI.
    pub(crate) fn options(&self) -> RootOptions {
        RootOptions {
            binds: self.binds.clone(),
            devices: self.devices.clone(),
            writable: self.writable.clone(),
            no_home: self.no_home,
            entrypoint: self.entrypoint,
        }
    }
}

/// With whom to share namespaces.
#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    /// Share memory with processes in the same environment on this node, or only with those that give the same name; ranks of one launcher do so automatically
    #[arg(
        short,
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        hide_default_value = true
    )]
    join: Option<String>,
    /// Share memory with no process, not even with other ranks of the launcher
    #[arg(long, conflicts_with = "join")]
    no_join: bool,
}

impl JoinArgs {
    /// Returns what was typed.
    pub(crate) fn options(&self) -> JoinOptions {
        JoinOptions { join: self.join.clone(), no_join: self.no_join }
    }
}
