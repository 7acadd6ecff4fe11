// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this machine has, where no setting says it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use crate::env_vars;

/// Where distributions and sites have what the command `module` starts, that of Lmod first.
const MODULE_COMMANDS: [&str; 6] = [
    "/usr/share/lmod/lmod/libexec/lmod",
    "/opt/apps/lmod/lmod/libexec/lmod",
    "/usr/share/Modules/libexec/modulecmd.tcl",
    "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    "/usr/lib/aarch64-linux-gnu/modulecmd.tcl",
    "/usr/lib/environment-modules/modulecmd.tcl",
];

/// Counts the processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the programs of a name in a list of directories as `PATH` has it, the first one first.
pub fn find_programs(name: &str, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path.unwrap_or_default())
        .filter(|directory| directory.is_absolute())
        .map(move |directory| directory.join(name))
        .filter(|program| fs::metadata(program).is_ok_and(|found| found.is_file()))
}

/// Returns the first program of a name in a list of directories as `PATH` has it.
pub fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    find_programs(name, path).next()
}

/// Returns what the command `module` starts: the program that the variables name, which Lmod and
/// Environment Modules set, or one at a usual place.
pub fn find_module_command(variables: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let named = [env_vars::LMOD_CMD, env_vars::MODULES_CMD];
    let named = named.into_iter().filter_map(|name| variables.get(OsStr::new(name)));
    let usual = MODULE_COMMANDS.into_iter().map(PathBuf::from);
    let mut places = named.map(PathBuf::from).chain(usual);
    places.find(|place| place.is_absolute() && place.is_file())
}
