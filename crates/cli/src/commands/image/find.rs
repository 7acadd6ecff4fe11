// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image find`: the images of a registry.

use cabane_image_search::SearchRequest;
use cabane_report::Result;
use clap::Args;

use crate::commands::image::find_shown::{KEYS, Shown, table};
use crate::commands::image::search::SearchArgs;
use crate::format::fill_lines;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// List the images in a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Search by any part of a label: `cp2k`, `/24.11`, `:v1`, `%zen3`, optionally in a
namespace of the registry: `build::cp2k`. A name also matches longer names that begin
with it. If the name of this system is known, only its images are listed; `@*` lists
those of all systems.

Write packages as Spack specs: `hdf5`, `hdf5@1.14:`, `hdf5@1.12:1.14+mpi`,
`hdf5@=1.14.3 api=v110 target=zen3`, `hdf5%gcc@13`, `hdf5/abc123`. For a dependency, add
another `--package` instead of `^`.

The keys of a template are namespace, name, version, tag, system, uarch, label,
id, digest, size, date, packages, signed.")]
#[expect(clippy::struct_excessive_bools, reason = "one for each option that has no value")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    search: SearchArgs,
    /// Show who signed each image; needs several requests for each
    #[arg(long)]
    signatures: bool,
    /// Download the whole list again, without asking whether the cached one is current
    #[arg(long)]
    refresh: bool,
    /// Omit the table header
    #[arg(long)]
    no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "no_header"])]
    json: bool,
    /// Print one line for each image from a template such as `{name}/{version} {digest}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn find(setup: &Setup, args: &FindArgs) -> Result<()> {
    let request = SearchRequest {
        refresh: args.refresh,
        signatures: args.signatures,
        ..args.search.request()
    };
    let found = cabane_image_search::find(setup, &args.registry.request(), &request)?;
    if args.json {
        let shown: Vec<_> = found.iter().map(Shown::of).collect();
        setup.printer.json(&shown);
    } else if let Some(template) = &args.format {
        let fields = found.iter().map(|image| Shown::of(image).fields());
        setup.printer.data(fill_lines(template, KEYS, fields)?);
    } else {
        if found.is_empty() {
            setup.note("no image matches");
        }
        setup.printer.data(table(&found, !args.no_header));
    }
    // The process ends here, and its memory with it.
    std::mem::forget(found);
    Ok(())
}
