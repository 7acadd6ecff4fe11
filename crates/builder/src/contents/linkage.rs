// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading the programs and libraries of a tree, several at once.

use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cabane_compat::{GlibcVersion, Linkage, library_cache};
use cabane_view::FileLinks;

/// More threads than this do not read faster.
const MOST_THREADS: usize = 8;
/// How many files are worth a thread.
const FILES_PER_THREAD: usize = 32;
/// How the names of versions of the C library begin.
const GLIBC: &str = "GLIBC_";

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each program and library.
    pub(super) files: Vec<FileLinks>,
    /// The newest version of the C library that one of them needs.
    pub(super) glibc: Option<GlibcVersion>,
}

/// Reads those of some files that are programs or libraries, in the tree in `root` that will be
/// mounted at `mount_point`.
pub(super) fn read_all(root: &Path, mount_point: &Path, candidates: &[PathBuf]) -> Found {
    let most = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let threads = candidates.len().div_ceil(FILES_PER_THREAD).clamp(1, most);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Found::default();
        while let Some(path) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.add(root, mount_point, path);
        }
        found
    };
    let mut all = Found::default();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        all.merge(work());
        for other in others {
            all.merge(other.join().unwrap_or_default());
        }
    });
    all
}

impl Found {
    fn add(&mut self, root: &Path, mount_point: &Path, path: &Path) {
        let linkage = File::open(path).ok().and_then(|file| Linkage::read(&file));
        let Some(linkage) = linkage else {
            return;
        };
        let versions = linkage.needs.iter();
        let glibc = versions.filter_map(|need| need.version.strip_prefix(GLIBC)?.parse().ok());
        self.glibc = self.glibc.max(glibc.max());
        let inside = path.strip_prefix(root).unwrap_or(path);
        let links = linkage.links;
        let paths = links.rpath.iter().chain(&links.runpath);
        let paths = paths.flat_map(|paths| paths.split(':'));
        let outside = paths.filter(|path| is_outside(path, mount_point)).map(str::to_owned);
        self.files.push(FileLinks {
            path: inside.to_string_lossy().into_owned(),
            is_program: linkage.is_program,
            architecture: linkage.architecture.to_owned(),
            page_size: linkage.page_size,
            outside: outside.collect(),
            soname: links.soname,
            needed: links.needed,
            versions: linkage
                .needs
                .into_iter()
                .map(|need| (need.of, need.version, need.is_weak))
                .collect(),
            offers: linkage.offers,
        });
    }

    fn merge(&mut self, other: Self) {
        self.glibc = self.glibc.max(other.glibc);
        self.files.extend(other.files);
    }
}

/// Whether a directory of a search path is one of the host, and no usual one.
fn is_outside(directory: &str, mount_point: &Path) -> bool {
    let directory = directory.trim_end_matches('/');
    let is_usual = library_cache::DEFAULT.contains(&directory);
    directory.starts_with('/') && !is_usual && !Path::new(directory).starts_with(mount_point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_the_image_and_of_every_system_are_not_outside() {
        let place = Path::new("/env");
        let seen = ["/env/lib", "$ORIGIN/../lib", "/usr/lib64/", "/opt/cray/lib64", "/environment"]
            .map(|directory| is_outside(directory, place));
        assert_eq!(seen, [false, false, false, true, true]);
    }
}
