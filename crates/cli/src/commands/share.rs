// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane share`: what others type to get an image.

use cabane_report::Result;
use cabane_transfer::share as share_image;
use clap::Args;
use serde_json::json;

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Print the command that others use to download an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane share prgenv-gnu/24.11:v2
  cabane share --registry https://registry.example.org/uenv app/2.1

The command names the registry and the digest of the image, so that everybody gets exactly this
image. Push the image first.")]
pub(crate) struct ShareArgs {
    /// A label, an ID, a digest, or an image file
    image: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn share(setup: &Setup, args: &ShareArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let shared = share_image(setup, &connection, &args.image)?;
    let image = &shared.image;
    if args.json {
        setup.printer.json(&json!({
            "line": shared.line,
            "registry": shared.registry,
            "label": image.place.to_string(),
            "digest": image.digest.to_string(),
            "size": image.size,
            "by_digest": shared.is_by_digest,
        }));
        return Ok(());
    }
    setup.printer.data(format!("{}\n", shared.line));
    if !shared.is_by_digest {
        let (place, namespace) = (&image.place, &image.place.namespace);
        setup.warning(format_args!(
            "the command names the label {place}, which can move: digests work in the default \
             namespace only, and not in `{namespace}`"
        ));
    }
    let label = &image.place.label;
    setup.hint(format_args!(
        "after the download, start it with `cabane start {}/{}:{}`",
        label.name, label.version, label.tag
    ));
    Ok(())
}
