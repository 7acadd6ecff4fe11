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

use super::libraries::library_below;
use super::without_doubles;
use crate::{Installation, Origin};

/// What starts ranks, the best first.
const LAUNCHERS: [&str; 3] = ["mpiexec", "mpirun", "mpiexec.hydra"];
/// What compiles C. Intel's `mpicc` wants a compiler of its own name, others only have that.
const WRAPPERS: [&str; 3] = ["mpicc", "mpiicx", "mpiicc"];

/// Directories with prefixes of MPIs, and how deep to search. Those that are fast to read come
/// first.
const PLACES: [(&str, usize); 7] = [
    ("/usr/local", 1),
    ("/usr/lib64", 1),
    ("/usr/lib64/mpi/gcc", 1),
    ("/usr", 0),
    ("/opt/cray/pe/mpich", 3),
    ("/opt/intel/oneapi/mpi", 1),
    ("/opt", 3),
];

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
        let library = if ending.is_empty() {
            library_below(prefix)
        } else {
            None
        };
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

/// Returns the prefixes in which systems install an MPI, with their names below `root`. The caller
/// looks for the MPI in each. The iterator reads directories only as it advances.
pub fn usual_prefixes(root: &Path) -> impl Iterator<Item = PathBuf> {
    let places = PLACES.iter().flat_map(move |(place, depth)| {
        let place = Path::new(place);
        below(&root.join(place.strip_prefix("/").unwrap_or(place)), *depth)
    });
    let mut seen = BTreeSet::new();
    places
        .map(move |path| Path::new("/").join(path.strip_prefix(root).unwrap_or(&path)))
        .filter(move |path| seen.insert(path.clone()))
}

/// The directories of a place down to a depth, itself first.
fn below(place: &Path, depth: usize) -> Vec<PathBuf> {
    let mut all = vec![place.to_owned()];
    if depth == 0 {
        return all;
    }
    let inner = fs::read_dir(place).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut inner: Vec<_> = inner
        .filter(is_directory)
        .map(|entry| entry.path())
        .collect();
    inner.sort();
    all.extend(inner.iter().flat_map(|inner| below(inner, depth - 1)));
    all
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
    let paths = names
        .iter()
        .map(|name| directory.join(format!("{name}{ending}")));
    paths.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
