// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where systems install an MPI.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    let mut inner: Vec<_> = inner.filter(is_directory).map(|entry| entry.path()).collect();
    inner.sort();
    all.extend(inner.iter().flat_map(|inner| below(inner, depth - 1)));
    all
}
