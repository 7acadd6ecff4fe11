// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Loads modules in the sandbox, with the tree where it was installed.

use std::path::{Path, PathBuf};

use cabane_process::installation;
use cabane_recipe::ModuleView;
use cabane_report::{Kind, Report};

use super::difference::{Loaded, USER, Variables};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::process::lines;
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, Result, disk};

const SCRIPT: &str = include_str!("evaluate.sh");
/// The directory of the step, in the work directory.
pub(super) const DIRECTORY: &str = "modules";
const SCRIPT_NAME: &str = "evaluate.sh";
const SHELLS: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];

/// The program behind the command `module`.
#[derive(Clone, Debug)]
pub(super) struct ModuleCommand {
    pub(super) path: PathBuf,
    shell: PathBuf,
}

/// What loading modules did, and what it said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) loaded: Loaded,
    /// Whether there was no error.
    pub(super) is_right: bool,
    /// What the module command wrote for its user.
    pub(super) messages: Vec<String>,
    pub(super) aliases: Vec<String>,
    pub(super) functions: Vec<String>,
}

impl ModuleCommand {
    /// Takes the program that the request names.
    pub(super) fn find(named: Option<&Path>) -> Result<Self> {
        let path = named.ok_or_else(no_command)?.to_owned();
        let mut shells = SHELLS.map(PathBuf::from).into_iter();
        let shell = shells.find(|shell| shell.is_file());
        let shell = shell.ok_or_else(|| BuildError::missing_program("bash"))?;
        Ok(Self { path, shell })
    }

    /// Whether it is that of Lmod, which reads module files in Lua.
    pub(super) fn is_lmod(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == "lmod")
    }

    /// Loads modules. `tree` is shown at `place`; the variables are set before.
    pub(super) fn load(
        &self,
        bench: &mut BuildContext<'_>,
        (tree, place): (&Path, &Path),
        view: &ModuleView,
        variables: &Variables,
    ) -> Result<Answer> {
        let here = bench.layout.work().join(DIRECTORY);
        disk::make_empty(&here)?;
        disk::put(&here.join(SCRIPT_NAME), SCRIPT)?;
        let inside = Inside::work(DIRECTORY);
        let mut sandbox = Sandbox::new(bench.request, bench.layout);
        // Both kinds read files that are beside their programs.
        if let Some(beside) = self.path.parent().and_then(Path::parent) {
            sandbox.keep(beside);
        }
        sandbox.bind(tree, place, true);
        sandbox.bind(&here, &inside, false);
        let paths: Vec<_> = view.path.iter().map(|path| place.join(path)).collect();
        let paths = paths.iter().map(|path| path.to_string_lossy());
        let fixed = [
            ("USER", USER),
            ("LOGNAME", USER),
            ("LMOD_COLORIZE", "no"),
            ("LMOD_IGNORE_CACHE", "yes"),
            ("MODULES_AUTO_HANDLING", "1"),
            ("MODULES_COLOR", "never"),
        ];
        for (name, value) in fixed {
            sandbox.set(name, value);
        }
        sandbox.set("MODULEPATH", paths.collect::<Vec<_>>().join(":"));
        for (name, value) in variables {
            sandbox.set(name, value);
        }
        let script = inside.join(SCRIPT_NAME);
        let invocation = Invocation::new(&self.shell, &inside)
            .with(["--noprofile", "--norc"])
            .with([script.as_path(), &self.path, &inside])
            .with(&view.load);
        bench.run(&sandbox, &invocation)?;
        read(&here)
    }
}

fn no_command() -> BuildError {
    let message = "views of the recipe load modules, but neither Lmod nor Environment Modules is \
                   installed here";
    let named = || "name the program behind `module` in the variable `LMOD_CMD`".to_owned();
    let hint = installation::hint("lmod").unwrap_or_else(named);
    Report::new(Kind::Build, message).hinted(hint).into()
}

fn read(directory: &Path) -> Result<Answer> {
    let text = |name: &str| -> Result<String> {
        let bytes = disk::read(&directory.join(name))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let variables = |name: &str| -> Result<Variables> {
        let text = text(name)?;
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    };
    let names = |name: &str| -> Result<Vec<String>> {
        Ok(text(name)?.lines().map(str::to_owned).collect())
    };
    let messages = lines(&disk::read(&directory.join("errors"))?);
    Ok(Answer {
        loaded: Loaded {
            before: variables("before")?,
            after: variables("after")?,
            code: text("code")?,
        },
        is_right: text("status")?.trim() == "0",
        messages: messages.into_iter().filter(|line| !line.trim().is_empty()).collect(),
        aliases: names("aliases")?,
        functions: names("functions")?,
    })
}
