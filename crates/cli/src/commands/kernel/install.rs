// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane kernel install`: makes images a kernel of Jupyter.

use std::path::PathBuf;

use cabane_jupyter::{InstallRequest, Installed, KernelSpec, Place, RecordedImage};
use cabane_label::{escape, shown};
use cabane_report::Result;
use clap::Args;
use serde::Serialize;

use super::PlaceArgs;
use crate::image_args::ImageArgs;
use crate::setup::Setup;

/// Make images a kernel of Jupyter
#[derive(Debug, Args)]
#[command(override_usage = "\
cabane kernel install [OPTIONS] <IMAGES> [-- COMMAND...]
       cabane kernel install [OPTIONS] --environment <NAME|PATH> [IMAGES] [-- COMMAND...]")]
#[command(after_help = "\
Examples:
  cabane kernel install analysis/2026.2
  cabane kernel install prgenv-gnu/24.11:v1 --view=develop --name=prgenv
  cabane kernel install -e climate --display-name=\"Climate model\"
  cabane kernel install julia/1.10 -- julia -i -e 'import IJulia; IJulia.run_kernel()' {connection_file}

Without a command, the kernel is that of Python (ipykernel) or R (IRkernel) in the images. The kernel
starts the image that the label names at that moment; with `--pin`, always the same image.")]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    images: ImageArgs,
    /// The name of the kernel; default: the name and version of the first image, or the name of the environment file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The name that notebooks and editors show
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// The language whose kernel to use: `python` or `R`; with a command, the language that it is for
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// Name the images by their digests, so that the kernel stays the same when a label moves
    #[arg(long, conflicts_with = "environment")]
    pin: bool,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command of the kernel, with `{connection_file}` where it wants that file
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    name: &'a str,
    directory: &'a PathBuf,
    replaced: bool,
    images: &'a [RecordedImage],
    kernel: &'a KernelSpec,
}

pub(crate) fn install(setup: &Setup, args: &InstallArgs) -> Result<()> {
    let request = InstallRequest {
        images: args.images.request(),
        root: args.images.root.options()?,
        mpi: args.images.root.mpi.clone(),
        mpi_program: args.images.root.mpi_program.clone(),
        is_pinned: args.pin,
        name: args.name.clone(),
        display_name: args.display_name.clone(),
        language: args.language.clone(),
        command: args.command.clone(),
        place: args.place.place().unwrap_or(Place::User),
        is_dry_run: args.images.dry_run,
    };
    let installed = cabane_jupyter::install(setup, &request)?;
    let Installed { name, directory, spec, images, was_replaced } = &installed;
    if args.json {
        let replaced = *was_replaced;
        setup.printer.json(&Answer { name, directory, replaced, images, kernel: spec });
    } else if request.is_dry_run {
        setup.printer.json(spec);
    } else {
        let verb = if *was_replaced { "replaced" } else { "installed" };
        let place = shown(directory);
        setup.note(format_args!("{verb} the kernel `{name}` in {place}"));
        for image in images {
            setup.note(format_args!("  {}", text(image)));
        }
        setup.note(format_args!("Jupyter shows it as `{}`", escape(&spec.display_name)));
    }
    Ok(())
}

/// Returns an image in a line: its label and ID, or its file.
pub(super) fn text(image: &RecordedImage) -> String {
    match (&image.label, &image.digest) {
        (Some(label), Some(digest)) => format!("{label} ({})", digest.id()),
        (None, Some(digest)) => digest.id().to_string(),
        (_, None) => shown(&image.path),
    }
}
