// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm`: images of Slurm jobs.

use std::ffi::OsStr;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use cabane_job::{
    Checked, Destination, InstallRequest, Installed, check_machine, collect_failures,
    install as add_or_remove, record as record_step, tell_failure,
};
use cabane_label::escape;
use cabane_mount::JOB_FAILURES;
use cabane_report::{IoContext, Kind, Report, Result};
use clap::{Args, Subcommand};

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod container_args;
mod node;
mod report;
pub(crate) mod submit;

/// What can be done with Slurm.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SlurmCommand {
    /// Add the plugin to Slurm, or remove it
    Install(InstallArgs),
    /// Check whether jobs on this machine would get their images
    Check(CheckArgs),
    /// Summarize the records of job steps: uses, failures, and slow nodes
    Report(report::ReportArgs),
    /// Resolve the images and variables of a job, for the Slurm plugin
    #[command(hide = true)]
    Submit(Box<submit::SubmitArgs>),
    /// Resolve devices or the MPI of a step on its node, for the Slurm plugin
    #[command(hide = true)]
    Node(Box<node::NodeArgs>),
    /// Record the images of a job step
    #[command(hide = true)]
    Record(RecordArgs),
    /// Collect the failures of the nodes of a step, beside srun
    #[command(hide = true)]
    Collect,
    /// Report the failure of a node to srun
    #[command(hide = true)]
    Tell(TellArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn slurm(setup: &Setup, command: &SlurmCommand) -> Result<ExitCode> {
    match command {
        SlurmCommand::Install(args) => install(setup, args)?,
        SlurmCommand::Check(args) => return check(setup, args),
        SlurmCommand::Report(args) => report::report(setup, args)?,
        SlurmCommand::Submit(args) => submit::submit(setup, args)?,
        SlurmCommand::Node(args) => node::node(setup, args)?,
        SlurmCommand::Record(args) => record(args)?,
        SlurmCommand::Collect => {
            collect_failures(place(setup), |line| setup.note(format_args!("cabane: {line}")))?;
        }
        SlurmCommand::Tell(args) => tell(setup, args)?,
    }
    Ok(exit_codes::SUCCESS)
}

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

fn install(setup: &Setup, args: &InstallArgs) -> Result<()> {
    let elastic = setup.settings.elastic.as_ref().filter(|_| !args.no_record && !args.remove);
    let elastic = elastic.map(|url| url.parse()).transpose();
    let elastic = elastic.map_err(|error| Report::new(Kind::BadInput, error))?;
    let request = InstallRequest {
        plugin: args.plugin.clone(),
        plugstack: args.plugstack.clone(),
        record: args.record.clone().or(elastic),
        no_record: args.no_record,
        container_options: setup.settings.container_options.value.clone(),
        remove: args.remove,
    };
    let (plugstack, installed) = add_or_remove(&request)?;
    let shown = plugstack.display();
    match installed {
        Installed::Unchanged => setup.note(format_args!("{shown} is as it should be")),
        Installed::Added(line) => setup.note(format_args!("added to {shown}: {line}")),
        Installed::Removed => setup.note(format_args!("took the plugin out of {shown}")),
    }
    if !args.remove {
        show(setup, &check_machine(Some(&plugstack)));
    }
    setup.note(
        "new steps follow the file and running ones do not, so nothing is restarted; do the same on \
         all nodes and where jobs are submitted. If Slurm distributes its configuration \
         (configless), do it on the host of slurmctld, and then: scontrol reconfigure",
    );
    Ok(())
}

/// Shows what was found, and what is wrong with it.
fn show(setup: &Setup, checked: &Checked) {
    for fact in &checked.facts {
        setup.note(escape(fact));
    }
    for fault in &checked.faults {
        setup.warning(fault);
    }
}

/// Check whether jobs on this machine would get their images
#[derive(Debug, Args)]
#[command(after_help = "\
It checks whether plugstack.conf names the plugin, also in files that it includes, whether the
plugin fits the Slurm release and the glibc of this machine, whether records can be written, and
the policy. `cabane doctor` checks the helper. It changes nothing and starts no job, so you can use
it as the health check of a node. The exit code is 10 if it finds a problem.")]
pub(crate) struct CheckArgs {
    /// The plugin configuration of Slurm; default: the file that `scontrol show config` names, or /etc/slurm/plugstack.conf
    #[arg(long, value_name = "PATH")]
    plugstack: Option<PathBuf>,
}

fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let checked = check_machine(args.plugstack.as_deref());
    show(setup, &checked);
    if checked.faults.is_empty() {
        setup.note("jobs get their images here");
        return Ok(exit_codes::SUCCESS);
    }
    Ok(exit_codes::UNHEALTHY)
}

/// Record the images of a job step
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The descriptor from which it is read what there is to record
    #[arg(long, value_name = "NUMBER")]
    from: i32,
    /// Where the record goes
    #[arg(long, value_name = "DESTINATION")]
    to: Destination,
}

pub(crate) fn record(args: &RecordArgs) -> Result<()> {
    record_step(args.from, args.to.clone())
}

/// Report the failure of a node to srun
#[derive(Debug, Args)]
pub(crate) struct TellArgs {
    /// The node
    #[arg(long)]
    node: String,
    /// The address of the host of srun
    #[arg(long)]
    to: IpAddr,
    /// Lines for the user
    #[arg(last = true)]
    lines: Vec<String>,
}

fn tell(setup: &Setup, args: &TellArgs) -> Result<()> {
    let answer = tell_failure(args.to, place(setup), &args.node, &args.lines)?;
    std::io::stdout().write_all(&answer).or_failed(|| "answer".to_owned())
}

/// Returns the port and the secret for the failures of a step.
fn place(setup: &Setup) -> &str {
    let place = setup.calling.get(OsStr::new(JOB_FAILURES));
    place.and_then(|place| place.to_str()).unwrap_or_default()
}
