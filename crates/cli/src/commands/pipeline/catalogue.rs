// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline catalogue`: the website of what a pipeline released.

use std::path::PathBuf;

use cabane_label::shown;
use cabane_pipeline::{Pipeline, PublishedCatalogue, Publishing};
use cabane_report::Result;
use clap::Args;

use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::counted;

/// Write a website of the released images
#[derive(Debug, Args)]
#[command(after_help = "\
`cabane pipeline run` does the same at its end. Call this command in a CI in which each cell is
a job of its own: files of `cabane pipeline generate` do so in their last job.

Example:
  cabane pipeline catalogue --file recipes/pipeline.yaml")]
pub(crate) struct CatalogueArgs {
    /// The pipeline: a file, or a directory with pipeline.yaml or config.yaml
    #[arg(short, long, value_name = "FILE", default_value = ".")]
    file: PathBuf,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn catalogue(setup: &Setup, args: &CatalogueArgs) -> Result<()> {
    let pipeline = Pipeline::open(&args.file)?;
    let publishing = Publishing { registry: args.registry.request(), offline: false };
    say_what_is_shown(setup, &cabane_pipeline::catalogue(setup, &pipeline, &publishing)?);
    Ok(())
}

pub(super) fn say_what_is_shown(setup: &Setup, catalogue: &PublishedCatalogue) {
    let PublishedCatalogue { directory, images, written } = catalogue;
    setup.note(format_args!(
        "catalog in {}: {}, {} of {} written",
        shown(directory),
        counted(*images, "image"),
        written.written,
        counted(written.files, "file")
    ));
}
