// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm install`: adds the plugin to Slurm, or removes it.

use std::path::PathBuf;

use cabane_job::{Destination, InstallRequest, Installed, install as add_or_remove};
use cabane_report::Result;
use clap::Args;

use crate::setup::Setup;

/// Add the plugin to Slurm, or remove it
#[derive(Debug, Args)]
#[command(after_help = "\
The command writes one line of plugstack.conf and keeps the others. It refuses a plugin for
another Slurm release, because Slurm could not start jobs with it. Running steps are not
affected. Run it on each node, and on the hosts where jobs are submitted.

Examples:
  cabane slurm install
  cabane slurm install --plugin /opt/cabane/lib/cabane-slurm.so
  cabane slurm install --record file:/var/log/cabane/steps.jsonl
  cabane slurm install --remove")]
pub(crate) struct InstallArgs {
    /// The plugin; default: lib/cabane/slurm/RELEASE/cabane-slurm.so below the prefix of this command, for the Slurm release of this machine, such as 23.11
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// The plugin configuration of Slurm; default: the file that `scontrol show config` names, or /etc/slurm/plugstack.conf
    #[arg(long, value_name = "PATH")]
    plugstack: Option<PathBuf>,
    /// Record each step with images: `file:PATH`, `syslog`, or the address of a collector, `http://…` or `https://…`
    #[arg(long, value_name = "DESTINATION")]
    record: Option<Destination>,
    /// Stop recording steps
    #[arg(long, conflicts_with = "record")]
    no_record: bool,
    /// Remove the plugin from the file
    #[arg(long, conflicts_with_all = ["plugin", "record"])]
    remove: bool,
}

pub(crate) fn install(setup: &Setup, args: &InstallArgs) -> Result<()> {
    let request = InstallRequest {
        plugin: args.plugin.clone(),
        plugstack: args.plugstack.clone(),
        record: args.record.clone(),
        no_record: args.no_record,
        remove: args.remove,
    };
    let (plugstack, installed) = add_or_remove(&request)?;
    let shown = plugstack.display();
    match installed {
        Installed::Unchanged => setup.note(format_args!("{shown} is as it should be")),
        Installed::Added(line) => setup.note(format_args!("wrote into {shown}: {line}")),
        Installed::Removed => setup.note(format_args!("took the plugin out of {shown}")),
    }
    Ok(())
}
