// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane bundle create`: images of a registry, in a file.

use std::path::PathBuf;

use cabane_label::{ChannelPattern, LabelPattern};
use cabane_recipe::parse_size;
use cabane_report::{Kind, Report, Result, size};
use cabane_transfer::{BundleRequest, create_bundle};
use clap::Args;

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Write images and channels of a registry to a file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane bundle create june.bundle --channel stable
  cabane bundle create july.bundle --channel stable --since june.bundle
  cabane bundle create tools.bundle cp2k/2025.1 prgenv-gnu/24.11 --split 4G

The file has the images with their metadata, chunk lists, and signatures, and
the images on which they are built. With --since, it has of an image only what
differs from the images in that bundle, which must be installed first. It is an
OCI image layout in a tar archive.")]
pub(crate) struct CreateArgs {
    /// The file to write
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Labels; a part that is left out matches everything
    #[arg(value_name = "LABEL", required_unless_present = "channels")]
    patterns: Vec<LabelPattern>,
    /// The images of this channel, and the channel itself
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<ChannelPattern>,
    /// A bundle that is installed on the other side. Repeatable
    #[arg(long, value_name = "BUNDLE")]
    since: Vec<PathBuf>,
    /// Split the file into pieces of at most this size, such as 4G: FILE.001, FILE.002
    #[arg(long, value_name = "SIZE", value_parser = piece_size)]
    split: Option<u64>,
    /// Replace the file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// The smallest piece, in bytes.
const SMALLEST: u64 = 1_000_000;

fn piece_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes < SMALLEST {
        return Err(format!("a piece has at least {}", size(SMALLEST)));
    }
    Ok(bytes)
}

pub(crate) fn create(setup: &Setup, args: &CreateArgs) -> Result<()> {
    let path = args.path.as_path();
    if path.exists() && !args.force {
        let message = format!("there is a file {} already", path.display());
        return Err(Report::new(Kind::Usage, message).hinted("--force replaces it".to_owned()));
    }
    let source = args.registry.connect(setup)?;
    let request = BundleRequest {
        source: &source,
        path,
        channels: args.channels.clone(),
        patterns: args.patterns.clone(),
        since: args.since.clone(),
        limit: args.split,
    };
    let written = create_bundle(setup, &request, &mut |image| {
        let (place, there, whole) = (image.place(), image.bytes_there(), image.size);
        if there == whole {
            setup.note(format_args!("{place} ({})", size(whole)));
        } else {
            setup.note(format_args!("{place} ({} of {})", size(there), size(whole)));
        }
    })?;
    let all: u64 = written.files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let (count, pieces, all) = (written.contents.images.len(), written.files.len(), size(all));
    let images = if count == 1 { "image" } else { "images" };
    match (pieces, written.files.first()) {
        (1, Some(file)) => {
            setup.note(format_args!("wrote {count} {images} to {} ({all})", file.display()));
        }
        _ => setup.note(format_args!(
            "wrote {count} {images} to {pieces} pieces of {} ({all})",
            path.display()
        )),
    }
    Ok(())
}
