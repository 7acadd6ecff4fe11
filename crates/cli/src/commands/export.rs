// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane export`: images of ours become a container image.

use std::path::PathBuf;

use cabane_container::export::{Compression, Walked};
use cabane_container::{Platform, digest};
use cabane_label::escape;
use cabane_report::{Result, size};
use cabane_transfer::{ExportRequest, Exported, MadeImage, export as export_images};
use clap::Args;
use serde::Serialize;

use crate::interrupt::end_when_interrupted;
use crate::setup::Setup;

/// Export images as a container image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane export tool/1.0 oci:./layout:tool
  cabane export prgenv-gnu/24.11 docker-archive:./prgenv.tar:site/prgenv --base debian/12
  cabane export prgenv-gnu/24.11 ghcr.io/my-lab/prgenv:24.11 \\
      --base quay.io/rockylinux/rockylinux:9 --view=default

Each image becomes one layer, with its files at the mount point of the image, on top of the
layers of the base. Docker, Podman, Apptainer, and `cabane import` read the result. The
same images and base always give the same digest.")]
pub(crate) struct ExportArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas
    #[arg(value_name = "IMAGES")]
    images: String,
    /// The destination: oci:DIR, oci-archive:FILE, or docker-archive:FILE, each optionally followed by :NAME, or a registry: REGISTRY/NAME:TAG
    #[arg(value_name = "DEST")]
    destination: String,
    /// The base: a root image, or a container image from a layout, an archive, or a registry, as in `cabane import`; its layers are kept
    #[arg(long, value_name = "IMAGE")]
    base: Option<String>,
    /// Views whose variables to set: VIEW or IMAGE:VIEW, separated by commas; default: those of `cabane run`
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// Use no view unless one is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    /// The platform: OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT; default: that of the base, or of the programs in the images
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// How to compress layers: gzip, or zstd, which is faster and needs the program `zstd`
    #[arg(long, value_name = "KIND", default_value_t)]
    compression: Compression,
    /// Replace a file, or move the name from the image that has it
    #[arg(long)]
    force: bool,
    /// A file with a token for the registry, or a directory with a file TOKEN; used for the destination, and for the base only if that is in the same registry or the destination is a file
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// The number of threads; default: one for each processor
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn export(setup: &Setup, args: &ExportArgs) -> Result<()> {
    let request = ExportRequest {
        images: args.images.clone(),
        destination: args.destination.clone(),
        base: args.base.clone(),
        view: args.view.clone(),
        no_default_view: args.no_default_view,
        platform: args.platform.clone(),
        compression: args.compression,
        force: args.force,
        token: args.token.clone(),
        username: args.username.clone(),
        jobs: args.jobs,
        interrupt: end_when_interrupted()?,
    };
    let done = export_images(setup, &request)?;
    print(setup, &done, args.json);
    Ok(())
}

/// Returns what was left out, a line each.
fn lines(made: &MadeImage) -> Vec<String> {
    let sum = |of: fn(&Walked) -> u64| made.walked.iter().map(of).sum::<u64>();
    let counted = [
        (sum(|one| one.set_id), "lost their set-user-id or set-group-id bit"),
        (sum(|one| one.special), "were devices, pipes, or sockets, and are left out"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<String> =
        counted.map(|(count, what)| format!("{count} files {what}")).collect();
    if !made.left_out.is_empty() {
        lines.push(format!(
            "variables that depend on yours, and are left out: {}",
            escape(&made.left_out.join(", "))
        ));
    }
    lines
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    image: String,
    digest: String,
    config: String,
    platform: String,
    layers: Vec<DoneLayer>,
    left_out: &'a [String],
    unchanged: bool,
}

#[derive(Serialize)]
struct DoneLayer {
    digest: String,
    size: u64,
}

fn print(setup: &Setup, done: &Exported, as_json: bool) {
    let made = &done.made;
    let exported = &made.exported;
    let written = digest::written(&exported.blob.digest);
    let bytes = exported.layers.iter().map(|layer| layer.size).sum();
    let what = if done.unchanged { "already has this image" } else { "was written" };
    setup.note(format_args!(
        "{} {what} ({}, {}, {})",
        done.destination,
        exported.blob.digest.id(),
        made.platform,
        size(bytes)
    ));
    for line in lines(made) {
        setup.note(format_args!("  {line}"));
    }
    if done.needs_base {
        setup.note(
            "  it has no root file system: programs in it need the libraries of what it is put \
             on (`--base`)",
        );
    }
    for need in &done.interpreters {
        setup.warning(format_args!(
            "`{}` needs Python {} at {} of what it is put on",
            escape(&need.image),
            escape(&need.version),
            escape(&need.path.to_string_lossy())
        ));
    }
    if as_json {
        let layers = exported
            .layers
            .iter()
            .map(|layer| DoneLayer { digest: digest::written(&layer.digest), size: layer.size });
        setup.printer.json(&Done {
            image: done.destination.clone(),
            digest: written,
            config: digest::written(&exported.config.digest),
            platform: made.platform.to_string(),
            layers: layers.collect(),
            left_out: &made.left_out,
            unchanged: done.unchanged,
        });
    }
}
