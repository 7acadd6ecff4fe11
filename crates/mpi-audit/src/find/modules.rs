// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Modules that bring an MPI.
//!
//! What a module sets only its interpreter knows: Environment Modules or Lmod. It is run
//! for those that speak of MPI at all, each in a shell of its own that has nothing in its
//! environment but what the interpreter needs. What was not in `PATH` before is the
//! module's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::prefix::{launcher_in, library_below, wrapper_in};
use crate::run::Runner;
use crate::{Installation, Origin};

/// How deep modules are below a directory of them.
const DEPTH: usize = 4;
/// How much of a module is read to see what it speaks of.
const MOST: u64 = 64 * 1024;
/// Says what a module sets. Functions and aliases are lost with the shell.
const QUESTION: &str = r#"set -e; settings=$("$0" sh load "$1"); eval "$settings"; printf 'cabane-variables\0'; env -0"#;
/// What the interpreter keeps for itself.
const OF_THE_INTERPRETER: [&str; 6] =
    ["LOADEDMODULES", "_LMFILES_", "__LMOD", "_ModuleTable", "LMOD_", "__MODULES"];

/// The interpreter of modules, and where they are.
#[derive(Clone, Debug)]
pub struct ModuleTool {
    /// `modulecmd.tcl`, `modulecmd`, or `lmod`.
    pub command: PathBuf,
    /// The directories of modules.
    pub paths: Vec<PathBuf>,
}

/// Returns the installations that modules bring.
pub fn modules(runner: &Runner, tool: &ModuleTool) -> Vec<Installation> {
    let mut names = BTreeSet::new();
    for directory in &tool.paths {
        collect(directory, directory, DEPTH, &mut names);
    }
    let found = names.iter().filter_map(|name| load(runner, tool, name));
    found.collect()
}

/// Collects the names of modules that speak of MPI.
fn collect(root: &Path, directory: &Path, depth: usize, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                collect(root, &path, depth - 1, names);
            }
        } else if speaks_of_mpi(&path) {
            let name = path.strip_prefix(root).ok().and_then(Path::to_str);
            names.extend(name.map(|name| name.strip_suffix(".lua").unwrap_or(name).to_owned()));
        }
    }
}

fn speaks_of_mpi(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
    let is_module = text.starts_with(b"#%Module") || path.extension().is_some_and(|e| e == "lua");
    let name = path.as_os_str().as_encoded_bytes();
    let speaks = |bytes: &[u8]| bytes.windows(3).any(|three| three.eq_ignore_ascii_case(b"mpi"));
    read.is_ok() && is_module && (speaks(&text) || speaks(name))
}

fn load(runner: &Runner, tool: &ModuleTool, name: &str) -> Option<Installation> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", QUESTION]).arg(&tool.command).arg(name);
    let paths = std::env::join_paths(&tool.paths).ok()?;
    command.env("MODULEPATH", paths);
    let ended = runner.run(&mut command);
    let (_, output) = ended.output.split_once("cabane-variables\0")?;
    let loaded: BTreeMap<_, _> =
        (output.split('\0')).filter_map(|line| line.split_once('=')).collect();
    let before: Vec<_> = runner.path().split(':').collect();
    let all = || loaded.get("PATH").into_iter().flat_map(|path| path.split(':'));
    let new = || all().filter(|directory| !before.contains(directory)).map(Path::new);
    let mut one = Installation::new(name, Origin::Module(name.to_owned()));
    one.wrapper = new().find_map(|directory| wrapper_in(directory, ""));
    // Whatever a user would get who has loaded it.
    one.launcher = all().find_map(|directory| launcher_in(Path::new(directory), ""));
    if one.wrapper.is_none() {
        let with_launcher = new().find(|directory| launcher_in(directory, "").is_some())?;
        (one.library, one.soname) = library_below(with_launcher.parent()?).unzip();
        one.library.as_ref()?;
    }
    one.variables = (loaded.into_iter())
        .filter(|(name, value)| runner.variable(name) != Some(value))
        .filter(|(name, _)| !OF_THE_INTERPRETER.iter().any(|own| name.starts_with(own)))
        .filter(|(name, _)| !["_", "PWD", "OLDPWD", "SHLVL", "MODULEPATH"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Some(one)
}
