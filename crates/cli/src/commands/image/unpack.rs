// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image unpack`: images as files on a node, with equal files stored once.

use cabane_label::escape;
use cabane_report::{Result, size};
use cabane_unpack::{Removal, Store, UnpackedImage, list};
use clap::Args;
use serde::Serialize;

use crate::setup::Setup;
use crate::table::Table;

/// Unpack images on this node, so that their equal files share memory
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo cabane image unpack app/1.2:v1 app/1.3:v1
  cabane image unpack --list
  sudo cabane image unpack --remove app/1.2:v1
  sudo cabane image unpack --remove --unused

Equal files of all unpacked images are one file on the disk of the node, and in the memory that caches
it. Starts and jobs on this node use the files instead of mounting the image, for all users. Every user
can read unpacked images, so only images that every user may read can be unpacked.

The directory is `unpacked-images` of /etc/cabane/mount.policy, by default /var/lib/cabane/unpacked.
An image that is in use when it is removed stays on the disk until the next unpacking or removal.")]
pub(crate) struct UnpackArgs {
    /// The images: labels, IDs, or digests
    #[arg(required_unless_present_any = ["list", "unused"], value_name = "IMAGE")]
    images: Vec<String>,
    /// List the unpacked images of this node
    #[arg(long, conflicts_with_all = ["images", "remove"])]
    list: bool,
    /// Remove unpacked images from this node
    #[arg(long)]
    remove: bool,
    /// Remove all unpacked images that no process uses
    #[arg(long, requires = "remove", conflicts_with = "images")]
    unused: bool,
    /// Print JSON
    #[arg(long, requires = "list")]
    json: bool,
}

/// An unpacked image, as `--json` has it.
#[derive(Serialize)]
struct Listed<'a> {
    digest: &'a str,
    label: Option<&'a str>,
    files: Option<u64>,
    bytes: Option<u64>,
    own_bytes: u64,
    unpacked: Option<String>,
    in_use: Option<bool>,
}

pub(crate) fn unpack(setup: &Setup, args: &UnpackArgs) -> Result<()> {
    if args.list {
        return print_list(setup, args.json);
    }
    let store = Store::open(setup)?;
    if args.unused {
        let mut count = 0_u64;
        store.remove_unused(&mut |removal| {
            count += 1;
            note_removal(setup, removal);
        })?;
        if count == 0 {
            setup.note("every unpacked image is in use");
        }
        return Ok(());
    }
    for typed in &args.images {
        if args.remove {
            note_removal(setup, &store.remove(typed)?);
        } else {
            let unpacked = store.unpack(setup, typed)?;
            let name = escape(&unpacked.name);
            match unpacked.new {
                None => setup.note(format_args!("{name} is already unpacked")),
                Some(new) => {
                    let (files, bytes, own) = (new.files, size(new.bytes), size(new.new_bytes));
                    setup.note(format_args!(
                        "unpacked {name}: {files} files of {bytes}, of which {own} are new"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn note_removal(setup: &Setup, removal: &Removal) {
    let name = name_of(&removal.image);
    if let Some(freed) = removal.freed {
        setup.note(format_args!("removed {name}: {} freed", size(freed)));
    } else {
        setup.note(format_args!("removed {name}: a process uses it, so its files stay for now"));
        setup.hint("`cabane image unpack --remove --unused` frees the space later");
    }
}

fn name_of(image: &UnpackedImage) -> String {
    let label = image.record.as_ref().and_then(|record| record.label.as_ref());
    label.map_or_else(|| image.digest.to_string(), |label| escape(label).into_owned())
}

fn print_list(setup: &Setup, is_json: bool) -> Result<()> {
    let images = list()?;
    if is_json {
        let listed: Vec<Listed<'_>> = images.iter().map(listed).collect();
        setup.printer.json(&listed);
        return Ok(());
    }
    if images.is_empty() {
        setup.note("no images are unpacked on this node");
        return Ok(());
    }
    let mut table = Table::new(&["label", "id", ">size", ">own", "in use"]);
    for image in &images {
        let label = image.record.as_ref().and_then(|record| record.label.as_deref());
        let label = label.map_or_else(|| "-".into(), escape);
        let bytes = image.record.as_ref().map_or_else(|| "-".to_owned(), |one| size(one.bytes));
        let in_use = match image.is_in_use {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        table.push(&[&label, &image.digest.id(), &bytes, &size(image.own), &in_use]);
    }
    setup.printer.data(table);
    Ok(())
}

fn listed(image: &UnpackedImage) -> Listed<'_> {
    let record = image.record.as_ref();
    Listed {
        digest: image.digest.as_str(),
        label: record.and_then(|record| record.label.as_deref()),
        files: record.map(|record| record.files),
        bytes: record.map(|record| record.bytes),
        own_bytes: image.own,
        unpacked: record.map(|record| record.unpacked.to_string()),
        in_use: image.is_in_use,
    }
}
