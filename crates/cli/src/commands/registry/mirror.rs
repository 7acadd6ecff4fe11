// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry mirror`: the images of another registry.

use std::path::PathBuf;

use cabane_label::{ChannelPattern, LabelPattern};
use cabane_report::{Result, size};
use cabane_transfer::{MirrorRequest, RegistryRequest, mirror as copy_images};
use clap::Args;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Copy images and channels to another registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry mirror https://registry.example.org/uenv https://mirror.example.com/uenv --channel stable
  cabane registry mirror https://a.example.org https://b.example.org 'deploy::@*' --dry-run

Images are copied with their metadata, chunk lists, and signatures, under the
same labels, and with the images on which they are built. The command copies
only what the target does not have, and continues after an interruption. It
removes nothing. A label that another image of the target has moves only with
--force, and a channel never goes back.")]
pub(crate) struct MirrorArgs {
    /// The address of the registry with the images
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The address of the registry that gets them
    #[arg(value_name = "TARGET")]
    target: String,
    /// Labels; a part that is left out matches everything
    #[arg(value_name = "LABEL", required_unless_present = "channels")]
    patterns: Vec<LabelPattern>,
    /// The images of this channel, and the channel itself
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<ChannelPattern>,
    /// Move labels from other images of the target
    #[arg(long)]
    force: bool,
    /// List what would be copied, and stop
    #[arg(long)]
    dry_run: bool,
    /// A file with a token for the target, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
}

pub(crate) fn mirror(setup: &Setup, args: &MirrorArgs) -> Result<ExitCode> {
    let source = RegistryRequest { registry: Some(args.source.clone()), ..Default::default() };
    let target = RegistryRequest {
        registry: Some(args.target.clone()),
        token: args.token.clone(),
        username: args.username.clone(),
    };
    let (source, target) = (source.connect(setup)?, target.connect(setup)?);
    let request = MirrorRequest {
        source: &source,
        target: &target,
        channels: args.channels.clone(),
        patterns: args.patterns.clone(),
        force: args.force,
        dry_run: args.dry_run,
    };
    let summary = copy_images(setup, &request, &mut |image, mirrored| match mirrored {
        Some(mirrored) if mirrored.is_new => {
            setup.note(format_args!("copied {} ({})", image.place, image.digest.id()));
        }
        Some(mirrored) => {
            let count = mirrored.attached;
            setup.note(format_args!("{}: added {count} attached documents", image.place));
        }
        None => setup.printer.data(format_args!("{}  {}\n", image.place, size(image.size))),
    })?;
    let (all, new) = (summary.images, summary.new);
    if args.dry_run {
        setup.note(format_args!("{new} of {all} images would be copied"));
    } else {
        let (sent, documents) = (size(summary.sent), summary.documents);
        setup.note(format_args!(
            "copied {new} of {all} images and {documents} channel documents, {sent}"
        ));
    }
    Ok(exit_codes::SUCCESS)
}
