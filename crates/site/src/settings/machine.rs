// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What this machine has, where no setting says it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

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
