// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build --on`: builds that run elsewhere.

use std::path::PathBuf;

use cabane_label::{ImageId, escape, shown};
use cabane_remote_build::{
    BuildRequest, Cancelled, Done, Found, Place, ReachOptions, cancel, find, start, unfinished,
};
use cabane_report::{Kind, Report, Result, size};
use clap::Args;

use super::{BuildArgs, say_start, say_time};
use crate::added::print_changes;
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::setup::Setup;
use crate::table::Table;

/// Options of a build that only work on this machine.
const HERE: [&str; 10] = [
    "with",
    "install",
    "dry_run",
    "build_dir",
    "from",
    "until",
    "key",
    "keep",
    "replace",
    "debug_symbols",
];

/// Where a build runs, if not on this machine.
#[derive(Debug, Args)]
pub(super) struct ElsewhereArgs {
    /// Build on another machine: in a Slurm job (`slurm`, `slurm:PARTITION`), or on a host over ssh
    /// (`HOST`, `USER@HOST`; `ssh:slurm` for a host named slurm)
    #[arg(long, value_name = "PLACE", value_parser = place, conflicts_with_all = HERE)]
    on: Option<Place>,
    /// With --on slurm: pass this option to `sbatch`, such as --sbatch=--time=2:00:00. Repeatable;
    /// these options follow those of the setting `build.sbatch`
    #[arg(long = "sbatch", value_name = "OPTION", allow_hyphen_values = true, requires = "on")]
    sbatch_options: Vec<String>,
    /// With --on slurm: build the packages of a stack on this number of nodes
    #[arg(long, value_name = "N", requires = "on", value_parser = nodes)]
    nodes: Option<usize>,
    /// With --on HOST and --with: the path of `cabane` there; default: the setting `build.remote_program`, then the
    /// first one in PATH
    #[arg(long, value_name = "PATH", requires = "machines")]
    remote_program: Option<String>,
    /// With --on: start the build, and do not wait for it
    #[arg(long, requires = "on")]
    detach: bool,
    /// Follow a build on another machine, and copy its image here
    #[arg(long, value_name = "ID", value_parser = build_id, conflicts_with_all = HERE, conflicts_with_all = ["on", "recipe"])]
    attach: Option<ImageId>,
    /// Cancel a build on another machine
    #[arg(long, value_name = "ID", value_parser = build_id, conflicts_with_all = HERE, conflicts_with_all = ["on", "recipe", "attach"])]
    cancel: Option<ImageId>,
    /// List the builds on other machines whose images have not arrived yet
    #[arg(long, conflicts_with_all = HERE, conflicts_with_all = ["on", "recipe", "attach", "cancel"])]
    list: bool,
}

/// Reads a number of nodes.
fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("use a number from 1 to 1024".to_owned()),
    }
}

fn place(text: &str) -> Result<Place, String> {
    text.parse().map_err(|error: cabane_report::Report| {
        let hints = error.hints().join("; ");
        format!("{error}: {hints}")
    })
}

impl ElsewhereArgs {
    /// The path of `cabane` on hosts.
    pub(super) fn program<'a>(&'a self, setup: &'a Setup) -> Option<&'a str> {
        self.remote_program.as_deref().or(setup.settings.remote_program.value.as_deref())
    }

    /// Whether the command is about a build elsewhere.
    pub(super) fn is_meant(&self) -> bool {
        self.on.is_some() || self.attach.is_some() || self.cancel.is_some() || self.list
    }

    fn reach(&self, setup: &Setup, place: &Place) -> Result<ReachOptions> {
        let unused = match place {
            Place::Host(_) if !self.sbatch_options.is_empty() => Some("`--sbatch` is for jobs"),
            Place::Host(_) if self.nodes.is_some() => Some("`--nodes` is for jobs"),
            Place::Slurm(_) if self.remote_program.is_some() => {
                Some("`--remote-program` is for hosts")
            }
            _ => None,
        };
        if let Some(unused) = unused {
            return Err(Report::new(
                Kind::Usage,
                format!("{unused}, and the build runs on {place}"),
            )
            .hinted("`--on slurm` builds in a job, and `--on HOST` on a host".to_owned()));
        }
        let settings = &setup.settings;
        let defaults = settings.sbatch.value.iter().flat_map(|text| text.split_whitespace());
        Ok(ReachOptions {
            sbatch_defaults: defaults.map(str::to_owned).collect(),
            sbatch: self.sbatch_options.clone(),
            nodes: self.nodes,
            program: self.program(setup).map(str::to_owned),
        })
    }
}

pub(super) fn build(setup: &Setup, args: &BuildArgs) -> Result<()> {
    let elsewhere = &args.elsewhere;
    if elsewhere.list {
        return list(setup);
    }
    let interrupt = stop_when_interrupted()?;
    if let Some(id) = &elsewhere.cancel {
        say_cancelled(setup, id, &cancel(setup, id, &interrupt)?);
        return Ok(());
    }
    let connection = args.connection(setup)?;
    let found = match (&elsewhere.attach, &elsewhere.on) {
        (None, Some(place)) => {
            let request = BuildRequest {
                place: place.clone(),
                recipe: args.recipe()?.to_owned(),
                label: args.label.clone(),
                format: args.image_format,
                system: setup.named_system.clone(),
                mirrors: args.mirrors.clone(),
                jobs: args.jobs,
            };
            let output = args.output.as_deref();
            start(setup, &request, output, &elsewhere.reach(setup, place)?, &interrupt)?
        }
        (Some(id), _) => find(setup, id, &interrupt)?,
        (None, None) => return Ok(()),
    };
    let (done, output) = match found {
        Found::Done(done) => (*done, None),
        Found::Elsewhere(mut build) => {
            let (id, place) = (build.id.clone(), build.place());
            let what = if build.is_new { "started" } else { "following" };
            setup.note(format_args!("{what} the build {id} {place}"));
            if elsewhere.detach {
                setup.hint(format_args!(
                    "`cabane build --attach {id}` follows it and copies the image here"
                ));
                setup.hint(format_args!("`cabane build --cancel {id}` cancels it"));
                return Ok(());
            }
            let output = build.record.output.clone();
            (build.finish(&mut Shown::new(setup))?, output)
        }
    };
    print(setup, &done, output);
    if let Some(label) = &done.label {
        if let Some(connection) = &connection {
            args.push(setup, connection, label)?;
        }
        say_start(setup, label);
    }
    Ok(())
}

/// Reads the ID of a build, which has the form of that of an image.
fn build_id(text: &str) -> Result<ImageId, String> {
    text.parse().map_err(|_| {
        "a build has an ID of 16 hexadecimal digits; `cabane build --list` shows them".to_owned()
    })
}

fn say_cancelled(setup: &Setup, id: &ImageId, cancelled: &Cancelled) {
    match cancelled {
        Cancelled::Stopped(place) => setup.note(format_args!("cancelled the build {place}")),
        Cancelled::Idle(place) => {
            setup.note(format_args!("removed the build {place}: it was not running"));
        }
        Cancelled::Done => {
            setup.note(format_args!("the build {id} has ended, and its image is here"));
            setup.hint("the same command builds again");
        }
    }
}

fn print(setup: &Setup, done: &Done, output: Option<PathBuf>) {
    if let Some(added) = &done.added {
        print_changes(setup, added);
    } else if let Some(label) = &done.label {
        setup.note(format_args!("{label} is already the image {}", done.digest.id()));
    } else if let Some(output) = output {
        setup.note(format_args!("wrote {} ({})", shown(&output), size(done.size)));
    }
    say_time(setup, done.seconds);
}

fn list(setup: &Setup) -> Result<()> {
    let mut table = Table::new(&["build", "on", "label", "started", "recipe"]);
    for (id, record) in unfinished(setup)? {
        let label = record.label.as_deref().unwrap_or("-");
        let started = record.started.strftime("%F %R").to_string();
        let recipe = escape(&record.recipe.to_string_lossy()).into_owned();
        table.push(&[&id, &record.place, &label, &started, &recipe]);
    }
    setup.printer.data(table);
    Ok(())
}
