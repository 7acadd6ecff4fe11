// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What builds leave behind, for those who tidy up.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::layout::Layout;

/// The directories of a cache directory that hold what was downloaded.
pub const CACHE_DIRECTORIES: &[&str] = &["uv", "tools"];

/// Returns the build directories right below a directory, sorted.
///
/// Nothing else is named: a user may have set the directory to one that holds other
/// things, too.
pub fn build_directories(parent: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_build_directory(path))
        .collect();
    found.sort();
    found
}

fn is_build_directory(path: &Path) -> bool {
    let layout = Layout::new(path.to_owned());
    !path.is_symlink() && layout.lock().is_file() && layout.markers().is_dir()
}

/// Returns whether a build works in the directory now.
pub fn is_under_way(build: &Path) -> bool {
    let Ok(lock) = File::open(Layout::new(build.to_owned()).lock()) else {
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockShared)
        .is_err_and(|errno| errno == rustix::io::Errno::WOULDBLOCK)
}

/// Returns how many bytes the files below a directory have.
pub fn size_of(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += size_of(&entry.path()),
            Ok(found) => bytes += found.len(),
            Err(_) => {}
        }
    }
    bytes
}
