// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The step `concretize`: which packages are built, in which order, with what they need.

use std::path::Path;

use serde::{Deserialize, Serialize};

use cabane_label::{enumerate, escape};
use cabane_recipe::nearest;
use cabane_report::{Kind, Report};

use super::{EasyBuildEngine, install, session};
use crate::build_context::{BuildContext, Listener};
use crate::layout::{Inside, Layout};
use crate::modules::ModuleViews;
use crate::sandbox::Invocation;
use crate::{Failure, Progress, Result, disk};

const RESULT: &str = "packages-of-easybuild.json";
/// Makes EasyBuild say what each package needs, which no option of it does.
const GRAPH: &str = include_str!("graph.py");
/// The directory of that program, in the work directory.
const DIRECTORY: &str = "graph";
/// What it writes, and the directory in the place of the store, both in the work directory of EasyBuild.
const ANSWER: &str = "graph/packages.json";
const EMPTY: &str = "graph/store";
/// The most that is read of the result, in bytes.
const MOST: u64 = 16 << 20;

/// A package that is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Planned {
    /// The name of its easyconfig: `zlib-1.3.1.eb`.
    pub(super) easyconfig: String,
    /// The name of its module: `zlib/1.3.1`.
    pub(super) module: String,
    /// Where it is installed, below the directory of software: `zlib/1.3.1`.
    pub(super) software: String,
    /// The directories beside that of all modules that have a link to its module: `lib`.
    pub(super) links: Vec<String>,
    /// The digest of its easyconfig.
    pub(super) digest: String,
    /// The modules of what it needs, its toolchain among them.
    pub(super) needs: Vec<String>,
}

/// The command that decides.
pub(super) fn invocation(engine: &EasyBuildEngine) -> Invocation {
    let mut invocation = session::eb(engine, &["--dry-run-short"]);
    invocation.program = Inside::work(session::WORK).join(DIRECTORY).join("eb");
    invocation
}

/// Finds out what is built, and whether the views can have their modules.
pub(super) fn execute(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    install::begin(engine)?;
    let work = engine.layout.work().join(session::WORK);
    let (answer, empty) = (work.join(ANSWER), work.join(EMPTY));
    disk::remove(&answer)?;
    // What an earlier build has installed decides nothing.
    disk::make_empty(&empty)?;
    prepare(engine, &work)?;
    let mut sandbox = session::sandbox_with(engine, &empty);
    sandbox.without_network();
    let mut errors = Errors::default();
    bench.run_heard(&sandbox, &invocation(engine), &mut errors)?;
    let planned: Vec<Planned> = disk::read_json(&answer, MOST).unwrap_or_default();
    if planned.is_empty() {
        let message = "cannot read from EasyBuild which packages it builds";
        let hint = format!("the whole log is in {}", cabane_label::shown(&bench.log()));
        return Err(Report::new(Kind::Build, message).hinted(hint).into());
    }
    check_views(engine, &planned)?;
    disk::write_json(&engine.layout.work().join(RESULT), &planned)
}

/// Writes the program that is `eb`, and also writes down what each package needs.
fn prepare(engine: &EasyBuildEngine, work: &Path) -> Result<()> {
    let inside = Inside::work(session::WORK);
    let (graph, answer) = (inside.join(DIRECTORY).join("graph.py"), inside.join(ANSWER));
    disk::put(&work.join(DIRECTORY).join("graph.py"), GRAPH)?;
    let script = format!(
        "#!/bin/sh\nexec '{}' -u -I '{}' '{}' \"$@\"\n",
        engine.tool.python().display(),
        graph.display(),
        answer.display()
    );
    disk::put_executable(&work.join(DIRECTORY).join("eb"), &script)
}

/// Returns what is built, if that is known.
pub(super) fn read(layout: &Layout) -> Option<Vec<Planned>> {
    disk::read_json(&layout.work().join(RESULT), MOST)
}

/// Fails if a view loads a module that is not built.
fn check_views(engine: &EasyBuildEngine, planned: &[Planned]) -> Result<()> {
    let modules: Vec<&str> = planned.iter().map(|one| one.module.as_str()).collect();
    let is_built = |wanted: &str| {
        let of_name = |module: &&str| {
            module.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        modules.iter().any(of_name)
    };
    for (view, load) in engine.modules.iter().flat_map(ModuleViews::loaded) {
        let Some(missing) = load.iter().find(|module| !is_built(module)) else { continue };
        let message =
            format!("the view `{view}` loads `{}`, but no such module is built", escape(missing));
        return Err(Report::new(Kind::Build, message).hinted(offer(missing, &modules)).into());
    }
    Ok(())
}

/// Offers modules in the place of one that is not built.
pub(super) fn offer(missing: &str, modules: &[&str]) -> String {
    match nearest(missing, modules) {
        Some(meant) => format!("did you mean `{}`?", escape(meant)),
        None => format!("the modules that are built are {}", enumerate(modules, "and")),
    }
}

/// Notes the errors that EasyBuild prints.
#[derive(Debug, Default)]
struct Errors(Vec<String>);

impl Listener for Errors {
    fn line(&mut self, line: &str, _: &mut dyn Progress) -> bool {
        if let Some(error) = line.strip_prefix("ERROR: ") {
            self.0.push(error.to_owned());
        }
        // The list of packages.
        line.starts_with(" * [")
    }

    fn blame(&mut self, failure: &mut Failure) {
        if !self.0.is_empty() {
            failure.tail = std::mem::take(&mut self.0);
        }
    }
}
