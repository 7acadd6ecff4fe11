// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is asked of this machine where no setting says it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

/// Counts the processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the first program of a name in a list of directories as `PATH` has it.
pub fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| fs::metadata(program).is_ok_and(|found| found.is_file()))
}
