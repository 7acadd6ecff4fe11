// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane kernel ls` and `cabane kernel remove`.

use cabane_jupyter::{InstalledKernel, State};
use cabane_label::{escape, shown, shown_word};
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
        say_what_to_do(setup, kernel);
    }
    Ok(())
}

/// Explains a state that is not `ready`, and what to type.
fn say_what_to_do(setup: &Setup, kernel: &InstalledKernel) {
    let name = escape(&kernel.name);
    match kernel.state {
        State::Ready => {}
        State::Moved => {
            setup.note(format_args!(
                "the kernel `{name}` starts other images than at its installation"
            ));
            let images = typed(kernel);
            setup.hint(format_args!(
                "`cabane kernel install {images} --name {name}` records the new ones"
            ));
        }
        State::Missing => {
            let reason = kernel.reason.as_deref().unwrap_or("an image is missing");
            setup.warning(format_args!("the kernel `{name}` does not start: {reason}"));
            setup.hint(format_args!("add the image again, or type `cabane kernel remove {name}`"));
        }
        State::NotChecked => {
            setup.note(format_args!(
                "the kernel `{name}` belongs to another user, so its images are not looked up"
            ));
            setup.hint(format_args!("`ls -ld {}` shows the owner", shown_word(&kernel.directory)));
        }
    }
}

/// Returns the images as they are typed, or the environment file.
fn typed(kernel: &InstalledKernel) -> String {
    if let Some(file) = &kernel.environment {
        return format!("-e {}", escape(file));
    }
    let images = kernel.images.iter().map(|image| match &image.label {
        Some(label) => label.to_string(),
        None => shown(&image.path).clone(),
    });
    images.collect::<Vec<_>>().join(",")
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
