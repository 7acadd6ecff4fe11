// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane bundle ls`: what is in a bundle.

use std::path::PathBuf;

use cabane_report::{Result, size};
use cabane_transfer::open_bundle;
use clap::Args;

use crate::setup::Setup;
use crate::table::Table;

/// List the images in a bundle
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane bundle ls june.bundle

The list comes from the bundle itself. `cabane bundle install` checks signatures and content.")]
pub(crate) struct LsArgs {
    /// The bundle, or its first piece
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let bundle = open_bundle(setup, &args.path)?;
    let contents = &bundle.contents;
    if args.json {
        setup.printer.json(contents);
        return Ok(());
    }
    let mut table = Table::new(&["image", "id", ">size", ">in the file"]);
    for image in &contents.images {
        let (whole, there) = (size(image.size), size(image.bytes_there()));
        let base = if image.is_base { " (base)" } else { "" };
        let place = format!("{}{base}", image.place());
        table.push(&[&place, &image.digest.id(), &whole, &there]);
    }
    setup.printer.data(table);
    setup.note(format_args!("from {}", cabane_label::escape(&contents.registry)));
    for channel in &contents.channels {
        setup.note(format_args!("with the channel {}", channel.place()));
    }
    Ok(())
}
