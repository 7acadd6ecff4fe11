// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane kernel ls` and `cabane kernel remove`.

use cabane_jupyter::{InstalledKernel, State};
use cabane_label::{escape, shown};
use cabane_report::Result;
use clap::Args;
use serde::Serialize;

use super::PlaceArgs;
use super::install::text;
use crate::setup::Setup;
use crate::table::Table;

/// List the kernels that Cabane has installed
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove a kernel that Cabane has installed
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The name of the kernel
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Removed {
    name: String,
    directory: std::path::PathBuf,
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let kernels = cabane_jupyter::list(setup, args.place.place().as_ref())?;
    if args.json {
        setup.printer.json(&kernels);
        return Ok(());
    }
    if kernels.is_empty() {
        setup.note("Cabane has not installed any kernels");
        return Ok(());
    }
    let mut table = Table::new(&["name", "language", "images", "state", "directory"]);
    for kernel in &kernels {
        let directory = shown(&kernel.directory);
        let (name, language) = (escape(&kernel.name), escape(&kernel.language));
        table.push(&[&name, &language, &images(kernel), &state(kernel.state), &directory]);
    }
    setup.printer.data(table);
    for kernel in &kernels {
        if let Some(reason) = &kernel.reason {
            setup.warning(format_args!(
                "the kernel `{}` does not start: {reason}",
                escape(&kernel.name)
            ));
        }
    }
    Ok(())
}

pub(crate) fn remove(setup: &Setup, args: &RemoveArgs) -> Result<()> {
    let directory = cabane_jupyter::remove(setup, &args.name, args.place.place().as_ref())?;
    if args.json {
        setup.printer.json(&Removed { name: args.name.clone(), directory });
    } else {
        setup.note(format_args!("removed {}", shown(&directory)));
    }
    Ok(())
}

fn images(kernel: &InstalledKernel) -> String {
    let images: Vec<String> = kernel.images.iter().map(text).collect();
    let file = kernel.environment.as_ref().map(|file| format!("{}: ", escape(file)));
    format!("{}{}", file.unwrap_or_default(), images.join(", "))
}

fn state(state: State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Moved => "moved",
        State::Missing => "missing",
        State::NotChecked => "not checked",
    }
}
