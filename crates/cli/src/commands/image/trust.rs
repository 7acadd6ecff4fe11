// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image trust`: which images the kernel may read, whoever owns them.

use std::path::PathBuf;

use cabane_image_trust::{Change, change, policy_list};
use cabane_report::Result;
use clap::Args;

use crate::setup::Setup;

/// Let the kernel mount an image, regardless of its owner
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo cabane image trust /scratch/alice/app.squashfs
  sudo cabane image trust --remove app/1.2:v1
  cabane image trust --print app/1.2:v1 >>verified-images

Adds the root hash of each image to the list of this system, which belongs to root. The
kernel then checks each block of the image when it reads it, and reads nothing else: if the
owner changes the file, programs get I/O errors. The image needs a hash tree beside it, which
each image of a repository has. See also: `cabane image sign --kernel-key`.")]
pub(crate) struct TrustArgs {
    /// The images: labels, IDs, digests, or paths
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Remove the images from the list
    #[arg(long)]
    remove: bool,
    /// The list [default: `verified-images` of the policy]
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Print the lines and change no list
    #[arg(long, conflicts_with_all = ["remove", "list"])]
    print: bool,
}

pub(crate) fn trust(setup: &Setup, args: &TrustArgs) -> Result<()> {
    let list = args.list.clone().unwrap_or_else(policy_list);
    let what = if args.remove { Change::Remove } else { Change::Add };
    let listed = change(setup, &args.images, what, (!args.print).then_some(list.as_path()))?;
    for one in listed {
        if args.print {
            setup.printer.data(format_args!("{}\n", one.line));
            continue;
        }
        let outcome = match (what, one.is_new) {
            (Change::Add, true) => "is added to",
            (Change::Add, false) => "is already in",
            (Change::Remove, true) => "is removed from",
            (Change::Remove, false) => "is not in",
        };
        let (name, list) = (one.name, list.display());
        setup.note(format_args!("{name} {outcome} {list}: root hash {}", one.root_hash));
    }
    Ok(())
}
