// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image push`: into a registry.

use std::path::PathBuf;

use cabane_report::Result;
use cabane_transfer::{Upload, push as push_image};
use clap::Args;

use crate::registry::{RegistryArgs, print_pushed};
use crate::setup::Setup;

/// Upload an image to a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image push prgenv-gnu/24.11:v2 prgenv-gnu/24.11:v2@daint%gh200
  cabane image push ./image.squashfs build::cp2k/2025.1:dev@daint%gh200

Missing parts of the label get the defaults of `image add`. An interrupted push resumes when
you run it again.")]
pub(crate) struct PushArgs {
    /// An image file, or an image of a repository: label, ID, or digest
    image: String,
    /// The label in the registry: name/version:tag@system%uarch, optionally after a namespace of the registry; default: the label of the image
    label: Option<String>,
    /// Move the label from the image that has it in the registry
    #[arg(long)]
    force: bool,
    /// Sign the image with this private key; see `cabane image sign`
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn push(setup: &Setup, args: &PushArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let upload = Upload {
        image: args.image.clone(),
        label: args.label.clone(),
        force: args.force,
        sign: args.sign.clone(),
    };
    let (pushed, key) = push_image(setup, &connection, &upload)?;
    print_pushed(setup, &pushed);
    if let Some(key) = key {
        let id = key.public().fingerprint();
        setup.note(format_args!("signed with the key {}", id.id()));
    }
    Ok(())
}
