// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options in the words of pyxis, as the plugin of Slurm hands them over.

use std::path::PathBuf;

use cabane_job::ContainerRequest;
use clap::Args;

/// What is requested in the words of pyxis.
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
#[derive(Debug, Args)]
pub(crate) struct ContainerArgs {
    /// A container image: a name in a registry, or a path
    #[arg(long, value_name = "[REGISTRY#]NAME[:TAG]|PATH")]
    container_image: Option<String>,
    /// Files and directories that are visible in the container
    #[arg(long, value_name = "SRC:DST[:FLAGS]", value_delimiter = ',')]
    container_mounts: Vec<String>,
    /// The directory in the container in which tasks start
    #[arg(long, value_name = "PATH")]
    container_workdir: Option<PathBuf>,
    /// The name by which later steps find the container image again
    #[arg(long, value_name = "NAME[:create|exec|no_exec|auto]")]
    container_name: Option<String>,
    /// The squashfs file to which the container image is copied
    #[arg(long, value_name = "PATH")]
    container_save: Option<PathBuf>,
    /// Show the home directory in the container
    #[arg(long, overrides_with = "no_container_mount_home")]
    container_mount_home: bool,
    /// Hide the home directory in the container; the default
    #[arg(long)]
    no_container_mount_home: bool,
    /// Variables that keep their values
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    container_env: Vec<String>,
    /// Keep changes in memory until the step ends
    #[arg(long)]
    container_writable: bool,
    /// The default
    #[arg(long, conflicts_with = "container_writable")]
    container_readonly: bool,
    /// Appear as root; the same
    #[arg(long)]
    container_remap_root: bool,
    /// The default
    #[arg(long, conflicts_with = "container_remap_root")]
    no_container_remap_root: bool,
    /// Run the entry point of the image
    #[arg(long)]
    container_entrypoint: bool,
    /// The default
    #[arg(long, conflicts_with = "container_entrypoint")]
    no_container_entrypoint: bool,
    /// No effect
    #[arg(long)]
    container_entrypoint_log: bool,
    /// Refused in jobs
    #[arg(long, value_name = "NS")]
    container_unshare: Option<String>,
}

impl ContainerArgs {
    /// Returns what was typed.
    pub(crate) fn request(&self) -> ContainerRequest {
        ContainerRequest {
            image: self.container_image.clone(),
            mounts: self.container_mounts.clone(),
            workdir: self.container_workdir.clone(),
            name: self.container_name.clone(),
            save: self.container_save.clone(),
            shows_home: self.container_mount_home,
            variables: self.container_env.clone(),
            writable: self.container_writable || self.container_remap_root,
            entrypoint: self.container_entrypoint,
            unshares: self.container_unshare.is_some(),
        }
    }
}
