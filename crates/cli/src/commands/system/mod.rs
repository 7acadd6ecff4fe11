// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane system`: systems, for building.

use cabane_device::{DIRECTORIES, Device, Devices};
use cabane_label::escape;
use cabane_report::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::setup::Setup;
use crate::table::Table;

mod probe;
mod text;

/// What can be done with systems.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SystemCommand {
    /// Detect the hardware and software of this machine, for building
    Probe(probe::ProbeArgs),
    /// List the devices of this machine that containers can use
    Devices(DevicesArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn system(setup: &Setup, command: &SystemCommand) -> Result<()> {
    match command {
        SystemCommand::Probe(args) => probe::probe(setup, args),
        SystemCommand::Devices(args) => devices(setup, args),
    }
}

/// List the devices of this machine that containers can use
#[derive(Debug, Args)]
#[command(after_help = "\
Files of the Container Device Interface (CDI) in /etc/cdi and /var/run/cdi describe devices;
vendors' tools write these files. `cabane run --device NAME IMAGE` gives a container a
device. Mistakes in a file are reported with their line.")]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    devices: Vec<Row>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    nodes: Vec<String>,
    mounts: usize,
    file: String,
    line: u32,
    /// Another file that describes it, too: then no one can have it.
    conflict: Option<String>,
}

impl Row {
    fn of(device: &Device<'_>) -> Self {
        let nodes = device.nodes.iter();
        Self {
            name: device.name.to_string(),
            nodes: nodes.map(|node| node.display().to_string()).collect(),
            mounts: device.mounts,
            file: device.file.display().to_string(),
            line: device.line,
            conflict: device.conflict.map(|other| other.display().to_string()),
        }
    }
}

fn devices(setup: &Setup, args: &DevicesArgs) -> Result<()> {
    let devices = Devices::of_machine();
    let outcome = Outcome {
        devices: devices.all().map(|device| Row::of(&device)).collect(),
        problems: devices.problems().iter().map(|one| one.text.clone()).collect(),
    };
    if args.json {
        setup.printer.json(&outcome);
        return Ok(());
    }
    let mut table = Table::new(&["device", "nodes", ">files", "described in"]);
    for row in &outcome.devices {
        let nodes = row.nodes.join(" ");
        let place = match &row.conflict {
            Some(other) => format!("{} and {other}: cannot be had", row.file),
            // A driver that no file describes.
            None if row.line == 0 => row.file.clone(),
            None => format!("{}:{}", row.file, row.line),
        };
        let (nodes, place) = (escape(&nodes), escape(&place));
        table.push(&[&row.name, &nodes, &row.mounts, &place]);
    }
    if outcome.devices.is_empty() {
        let [first, second] = DIRECTORIES;
        setup.note(format_args!("no file in {first} or {second} describes a device"));
    } else {
        setup.printer.data(table);
    }
    for problem in &outcome.problems {
        setup.warning(problem);
    }
    Ok(())
}
