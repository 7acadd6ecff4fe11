// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi swap --in`: the same for a program in a container.
//!
//! The launcher stays on this machine, and starts `cabane run --mpi` for each rank, which does
//! the work on its node. What is added here is one judgement before anything is launched, and
//! the proof: the probe is shown in the container and started just as the program will be.

use std::ffi::OsString;
use std::path::Path;

use cabane_mpi::{LauncherKind, Library, Tree};
use cabane_run::become_command;
use serde_json::json as value;

use crate::commands::mpi::inspect::find_program;
use crate::commands::mpi::probe::{Proof, With, own_launcher};
use crate::commands::mpi::root::{self, Found, Question};
use crate::commands::mpi::substitute::Asked;
use crate::commands::mpi::swap::{SwapArgs, Words, accepted, check_launcher, needs_mpi};
use crate::commands::mpi::text;
use crate::commands::run::not_started;
use crate::commands::sight::Sight;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_environment::{ImageRequest, RootOptions, find_environment};

/// Where the probe is seen in a container.
const PROBE: &str = "/run/cabane/probe";

/// A command that cannot be run in an image.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is no container image: it has no root file system", cabane_label::escape(.0))]
struct NoRoot(String);

/// A command that is started in a container.
struct Start<'a> {
    args: &'a SwapArgs,
    image: &'a str,
    /// The words of this program.
    cabane: Vec<OsString>,
    /// Words of a launcher of this machine.
    launcher: Vec<OsString>,
}

pub(crate) fn swap(setup: &Setup, args: &SwapArgs, image: &str) -> CommandResult<ExitCode> {
    let images = ImageRequest::new(image, None, false).telling_choice();
    let (environment, mut additions) = find_environment(setup, &images)?;
    let root = cabane_environment::root_request(
        setup,
        &RootOptions::default(),
        &environment,
        &mut additions,
    )?;
    let Some(concrete) = environment.root() else {
        let error = NoRoot(image.to_owned());
        let hint = format!("write `cabane run {image} -- cabane mpi swap …`");
        return Err(Report::new(Kind::Usage, error).hinted(hint));
    };
    let launcher = launcher_here(setup, &args.command);
    let sight = Sight::of(&setup.calling, &environment, &additions, &root);
    let question = Question {
        asked: Asked {
            with: &args.with,
            libraries: &[],
            program: args.program.as_deref(),
        },
        image: concrete,
        sight: &sight,
        command: &args.command,
        is_launched: launcher.is_some(),
    };
    let found = match root::look(setup, &question)? {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    check_launcher(launcher, &found.verdict, &found.launchers)?;
    let (before, program) = args.command.split_at(found.begin);
    if args.dry_run {
        tell(setup, args, &found, (before, program))?;
        return Ok(exit_codes::SUCCESS);
    }
    for warning in &found.verdict.warnings {
        let text = warning.to_string();
        setup.printer.warning(&cabane_label::escape(&text));
    }
    let is_here = launcher.is_some();
    let mut cabane = setup.own_program()?;
    cabane.extend(setup.typed_options());
    let start = Start {
        args,
        image,
        cabane,
        launcher: if is_here { before.to_vec() } else { Vec::new() },
    };
    let inside = if is_here { &[] } else { before };
    if args.probe || args.measure {
        start.prove(setup, &found, launcher, inside)?;
    }
    let command = [inside, program].concat();
    let line = start.line(&start.launcher, With::Substitute, None, &command);
    Err(not_started(become_command(line)))
}

/// Finds out whether a command begins with a launcher of this machine.
fn launcher_here(setup: &Setup, command: &[OsString]) -> Option<LauncherKind> {
    let tree = Tree::here();
    let path = find_program(setup, Path::new(command.first()?))?;
    LauncherKind::of(&tree, &path).filter(|_| !needs_mpi(&tree, &path))
}

fn tell(
    setup: &Setup,
    args: &SwapArgs,
    found: &Found,
    (before, program): (&[OsString], &[OsString]),
) -> CommandResult<()> {
    if args.json {
        setup.printer.data(json(&value!(found.verdict)));
        return Ok(());
    }
    let plan = accepted(&found.verdict)?;
    let words = Words {
        launcher: None,
        before: before.to_vec(),
        program: program.to_vec(),
        file: found.file.clone(),
    };
    let variables = plan.environment(|_| None);
    let text = text::plan(&found.verdict, plan, &variables, &words);
    setup.printer.data(text);
    Ok(())
}

impl Start<'_> {
    /// Runs the probe where the program would be.
    fn prove(
        &self,
        setup: &Setup,
        found: &Found,
        launcher: Option<LauncherKind>,
        inside: &[OsString],
    ) -> CommandResult<()> {
        let (Some(to), Some(wanted)) = (&found.verdict.to, &found.wanted) else {
            return Ok(());
        };
        let own = if found.is_launched {
            self.launcher.clone()
        } else {
            own_launcher(to, &found.launchers)?
        };
        let is_known = |from: &&Library| {
            let mut kinds = launcher.into_iter();
            kinds.all(|kind| from.fits(kind) != Some(false))
        };
        let file = root::seen_at(&to.path);
        let proof = Proof {
            wanted,
            to: (to, &file),
            from: found.verdict.from.as_ref().filter(is_known),
            ranks: (!found.is_launched).then_some(2),
            image: Some(self.image),
            measures: self.args.measure,
        };
        let program = [inside, &[format!("{PROBE}/probe").into()]].concat();
        proof.run(setup, |with, probe| {
            self.line(&own, with, Some(probe), &program)
        })
    }

    /// Returns the words that start a command in the image.
    fn line(
        &self,
        launcher: &[OsString],
        with: With,
        probe: Option<&Path>,
        command: &[OsString],
    ) -> Vec<OsString> {
        let mut words = launcher.to_vec();
        words.extend(self.cabane.iter().cloned());
        words.push("run".into());
        if with == With::Substitute {
            words.extend(["--mpi".into(), OsString::from(&self.args.with)]);
            // The probe needs MPI itself.
            if let (None, Some(program)) = (probe, &self.args.program) {
                words.extend(["--mpi-program".into(), program.into()]);
            }
        }
        if let Some(probe) = probe {
            let mut bind = probe.as_os_str().to_owned();
            bind.push(format!(":{PROBE}:ro"));
            words.extend(["--bind".into(), bind]);
        }
        words.extend([self.image.into(), "--".into()]);
        words.extend(command.iter().cloned());
        words
    }
}
