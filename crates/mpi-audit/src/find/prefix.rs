// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in directories.
//!
//! Where a distribution keeps several in one directory, their programs have endings:
//! `mpicc.mpich` and `mpiexec.mpich` belong together.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_mpi::usual_prefixes;

use super::without_doubles;
use crate::{Installation, Origin};

/// What starts ranks, the best first.
const LAUNCHERS: [&str; 3] = ["mpiexec", "mpirun", "mpiexec.hydra"];
/// What compiles C. Intel's `mpicc` wants a compiler of its own name, others only have that.
const WRAPPERS: [&str; 3] = ["mpicc", "mpiicx", "mpiicc"];

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

/// Returns what is installed in a prefix, or in its directory of programs.
pub fn in_prefix(prefix: &Path) -> Vec<Installation> {
    let of_programs = prefix.join("bin");
    let (prefix, directory) = match prefix.parent() {
        Some(parent) if !of_programs.is_dir() && prefix.ends_with("bin") => (parent, prefix),
        _ => (prefix, of_programs.as_path()),
    };
    let found = endings(directory).into_iter().filter_map(|ending| {
        let name = match ending.strip_prefix('.') {
            Some(ending) => format!("{} ({ending})", prefix.display()),
            None => prefix.display().to_string(),
        };
        let mut one = Installation::new(name, Origin::Prefix(prefix.to_owned()));
        one.wrapper = wrapper_in(directory, &ending);
        one.launcher = launcher_in(directory, &ending);
        if one.wrapper.is_none() && one.launcher.is_none() {
            return None;
        }
        let library = if ending.is_empty() { library_below(prefix) } else { None };
        (one.library, one.soname) = library.unzip();
        // A launcher alone is nothing: there are many programs of that name.
        (one.wrapper.is_some() || one.library.is_some()).then_some(one)
    });
    without_doubles(found.collect())
}

/// Returns what is installed where systems put it.
pub fn usual_places() -> Vec<Installation> {
    let prefixes = usual_prefixes(Path::new("/"));
    without_doubles(prefixes.flat_map(|prefix| in_prefix(&prefix)).collect())
}

/// The endings of the programs in a directory: those of the distribution first, because
/// the plain names are links to one of them.
fn endings(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let endings: BTreeSet<_> = names
        .filter_map(|name| Some(name.strip_prefix("mpicc.")?.to_owned()))
        .filter(|ending| !ending.is_empty() && ending.chars().all(char::is_alphanumeric))
        .collect();
    let endings = endings.into_iter().map(|ending| format!(".{ending}"));
    endings.chain([String::new()]).collect()
}

/// The wrapper with an ending in a directory.
pub(super) fn wrapper_in(directory: &Path, ending: &str) -> Option<PathBuf> {
    first_program(directory, &WRAPPERS, ending)
}

/// The launcher with an ending in a directory.
pub(super) fn launcher_in(directory: &Path, ending: &str) -> Option<PathBuf> {
    first_program(directory, &LAUNCHERS, ending)
}

fn first_program(directory: &Path, names: &[&str], ending: &str) -> Option<PathBuf> {
    let paths = names.iter().map(|name| directory.join(format!("{name}{ending}")));
    paths.into_iter().find(|path| is_program(path))
}

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

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
