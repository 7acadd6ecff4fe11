// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane explain`: where the things in an environment come from.

use std::ffi::OsString;

use cabane_environment::ImageRequest;
use cabane_launch::LaunchPlan;
use cabane_report::{Kind, Report, Result};
use cabane_run::become_command;
use cabane_run::inside::{Explanation, ProcessEnvironment};
use clap::Args;
use serde_json::{Value, json as value};

use crate::image_args::InsideArgs;
use crate::launch::finish;
use crate::setup::Setup;

mod text;

/// Show where a command, library, variable, or file comes from
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane explain                         what is loaded, and the conflicts
  cabane explain python PATH             inside an environment
  cabane explain libmpi.so.12
  cabane explain --libraries-of ./solver
  cabane explain --in analysis,tools python VIRTUAL_ENV

A name with a `/` is a file. Any other name can be a command in PATH, a library, or a
variable.")]
pub(crate) struct ExplainArgs {
    /// Commands, libraries, variables, or paths; without any, show what is loaded and the conflicts between views
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
    /// Show the libraries that a program loads, and where they come from
    #[arg(long, value_name = "PROGRAM")]
    libraries_of: Option<String>,
    #[command(flatten)]
    inside: InsideArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn explain(setup: &Setup, args: &ExplainArgs) -> Result<()> {
    if let Some(images) = &args.inside.request() {
        return explain_inside(setup, args, images);
    }
    let process_environment = ProcessEnvironment::look(setup.calling.clone());
    if args.what.is_empty() && args.libraries_of.is_none() {
        return overview(setup, args, &process_environment);
    }
    let mut all = Vec::with_capacity(args.what.len());
    let mut problem = None;
    if let Some(program) = &args.libraries_of {
        let libraries = process_environment.libraries_of(program)?;
        all.push((program, libraries));
    }
    for what in &args.what {
        match process_environment.explain(what) {
            Ok(found) => all.extend(found.into_iter().map(|one| (what, one))),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    if args.json {
        setup.printer.json(&as_json(&all));
    } else {
        let texts: Vec<String> = all.iter().map(|(_, one)| text::explanation(one)).collect();
        setup.printer.data(texts.join("\n"));
    }
    let outside = "no image is loaded here; to look into one, write `cabane explain --in IMAGES …`";
    let hint = process_environment.images.is_empty().then(|| outside.to_owned());
    problem.map_or(Ok(()), |error| Err(error.hinted(hint)))
}

/// Starts itself in the environment, so that there is one way to look: at files that
/// are really mounted.
fn explain_inside(setup: &Setup, args: &ExplainArgs, images: &ImageRequest) -> Result<()> {
    let mut command = setup.own_program()?;
    command.push("explain".into());
    command.extend(args.json.then(|| OsString::from("--json")));
    command.extend(args.libraries_of.iter().map(|of| format!("--libraries-of={of}").into()));
    command.push("--".into());
    command.extend(args.what.iter().map(OsString::from));
    finish(setup, LaunchPlan::launch_own(setup, images, command)?)
}

fn overview(
    setup: &Setup,
    args: &ExplainArgs,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    if process_environment.images.is_empty() {
        let error = Report::new(Kind::NotLoaded, "no image is loaded");
        let hint = "name what you want to know about, or an environment with `--in IMAGES`";
        return Err(error.hinted(hint.to_owned()));
    }
    let conflicts = process_environment.conflicts();
    if args.json {
        let image = |image: &cabane_run::inside::InsideImage| {
            value!({
                "image": image.title(),
                "mount_point": image.loaded.mount_point.to_string_lossy(),
                "is_mounted": image.is_mounted,
            })
        };
        let images: Vec<Value> = process_environment.images.iter().map(image).collect();
        let views: Vec<&String> = process_environment.views.iter().map(|view| &view.name).collect();
        let all = value!({ "images": images, "views": views, "conflicts": conflicts });
        setup.printer.json(&all);
    } else {
        setup.printer.data(text::overview(process_environment));
        setup.printer.data(text::conflicts(&conflicts));
    }
    Ok(())
}

/// A flat list, in which each explanation names what was requested.
fn as_json(all: &[(&String, Explanation)]) -> Value {
    let one = |(what, explanation): &(&String, Explanation)| {
        let mut object = value!(explanation);
        object["what"] = value!(what);
        object
    };
    all.iter().map(one).collect()
}

/// The lines that are printed before a command starts.
const MOST_LINES: usize = 10;

/// Show conflicts, then run a command
#[derive(Debug, Args)]
pub(crate) struct ExplainStartArgs {
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Prints what `-v` shows before a command starts: the conflicts of views.
///
/// Which files there are is only visible once the images are mounted, and the process that
/// mounts them becomes the command at once. So the command is this program, which looks, prints,
/// and becomes the command that was typed.
pub(crate) fn explain_start(setup: &Setup, args: &ExplainStartArgs) -> Result<()> {
    let conflicts = ProcessEnvironment::look(setup.calling.clone()).conflicts();
    for line in text::short_conflicts(&conflicts, MOST_LINES) {
        setup.note(line);
    }
    Err(become_command(args.command.clone()))
}
