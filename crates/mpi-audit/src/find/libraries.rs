// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The library of an installation that has no compiler to tell where it is.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories of libraries below a prefix.
const DIRECTORIES: [&str; 6] = [
    "lib",
    "lib64",
    "lib/release",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "intel64/lib/release",
];

/// How the libraries of C begin; the rest is a dot and a number.
const STEMS: [&str; 2] = ["libmpi.so.", "libmpich.so."];

/// Looks for the library below a prefix: its directory, and the name that programs know.
pub(super) fn library_below(prefix: &Path) -> Option<(PathBuf, String)> {
    DIRECTORIES.iter().find_map(|directory| {
        let directory = prefix.join(directory);
        Some((directory.clone(), soname_in(&directory)?))
    })
}

fn soname_in(directory: &Path) -> Option<String> {
    let names = fs::read_dir(directory).ok()?.flatten();
    let names = names.filter_map(|file| file.file_name().into_string().ok());
    let is_soname = |name: &String| {
        let number = STEMS.iter().find_map(|stem| name.strip_prefix(stem));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    names.filter(is_soname).min()
}
