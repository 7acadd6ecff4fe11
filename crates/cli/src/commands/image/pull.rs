// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image pull`: from a registry into the repository.

use std::path::PathBuf;

use cabane_label::ImageDescription;
use cabane_report::Result;
use cabane_transfer::{PullRequest, pull as pull_image, pull_metadata, refuse_container};
use clap::Args;

use crate::added::print_changes;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Download an image from a registry into the repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image pull prgenv-gnu/24.11:v2
  cabane image pull build::cp2k/2025.1:1234567890@daint%gh200
  cabane image pull 0123456789abcdef

You can leave out parts of the label if only one image matches. An interrupted pull
resumes when you run it again. Several pulls of one image, even on several hosts, download
it once. The bases of an image are downloaded with it.")]
pub(crate) struct PullArgs {
    /// A label, an ID, or a digest
    image: String,
    /// Download only the metadata, into this new directory
    #[arg(long, alias = "only-meta", value_name = "DIR")]
    meta: Option<PathBuf>,
    /// If another image in the repository has the label, move it to the downloaded image
    #[arg(long)]
    force: bool,
    /// Let only members of this Unix group read the image here
    #[arg(long, value_name = "NAME", conflicts_with = "meta")]
    group: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn pull(setup: &Setup, args: &PullArgs) -> Result<()> {
    // Before a registry is asked for, which a container image names itself.
    args.image.parse::<ImageDescription>().map_or(Ok(()), |image| refuse_container(&image))?;
    let connection = args.registry.connect(setup)?;
    if let Some(directory) = &args.meta {
        let label = pull_metadata(setup, &connection, &args.image, directory)?;
        setup.note(format_args!("the metadata of {label} are in {}", directory.display()));
        return Ok(());
    }
    let request =
        PullRequest { image: args.image.clone(), force: args.force, group: args.group.clone() };
    pull_image(setup, &connection, &request, &mut |added| print_changes(setup, added))
}
