// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How much memory there is for a build: what the system has left, what control groups
//! and the job allow, what fits into the file system, and what the last build used.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{statfs, statvfs};

use crate::disk;

/// What a build uses if nothing is known about it: many stacks of a compiler, an MPI and
/// some libraries.
pub(crate) const UNKNOWN: u64 = 12 << 30;
/// What a compiler uses beside the files that it writes.
const PER_JOB: u64 = 512 << 20;
/// `linux/magic.h`.
const TMPFS: u64 = 0x0102_1994;
/// Where it is remembered, below the cache.
const USED: &str = "used-1";

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// For files, in the file system.
    pub(crate) files: u64,
    /// For everything: files and programs.
    pub(crate) all: u64,
}

impl Free {
    /// Asks the system about a directory in memory.
    pub(crate) fn ask(directory: &Path, job_limit: Option<u64>) -> Option<Self> {
        let found = statvfs(directory).ok()?;
        let system = available(&fs::read_to_string("/proc/meminfo").ok()?)?;
        let groups = left_in_control_groups(Path::new("/sys/fs/cgroup"));
        let limits = [job_limit, groups].into_iter().flatten();
        Some(Self {
            files: found.f_bavail.saturating_mul(found.f_frsize),
            all: limits.fold(system, u64::min),
        })
    }

    /// Whether so many bytes fit beside the programs of the build.
    pub(crate) fn fits(self, need: u64, jobs: usize) -> bool {
        need <= self.files && need.saturating_add(for_programs(jobs)) <= self.all
    }

    /// The largest need that would fit.
    pub(crate) fn largest(self, jobs: usize) -> u64 {
        self.files.min(self.all.saturating_sub(for_programs(jobs)))
    }
}

fn for_programs(jobs: usize) -> u64 {
    PER_JOB.saturating_mul(u64::try_from(jobs).unwrap_or(u64::MAX))
}

/// Whether the files of a directory are kept in memory.
pub(crate) fn is_in_memory(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| u64::try_from(found.f_type) == Ok(TMPFS))
}

/// How many bytes a file system holds.
pub(crate) fn used_of_file_system(directory: &Path) -> u64 {
    statvfs(directory).map_or(0, |found| {
        let blocks = found.f_blocks.saturating_sub(found.f_bfree);
        blocks.saturating_mul(found.f_frsize)
    })
}

/// Reads `MemAvailable` of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Returns what the control groups of this process, and those around them, allow it to
/// use beyond what they use now; `None` if they limit nothing.
fn left_in_control_groups(root: &Path) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let groups = text.lines().filter_map(|line| group(root, line));
    let left = groups.filter_map(|(base, path)| {
        let own = base.join(path.trim_start_matches('/'));
        let around = own.ancestors().take_while(|one| one.starts_with(&base));
        around.filter_map(left_in).min()
    });
    left.min()
}

/// Splits a line of `/proc/self/cgroup` into where groups are seen, and which it is.
fn group<'a>(root: &Path, line: &'a str) -> Option<(PathBuf, &'a str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    if controllers.is_empty() {
        return Some((root.to_owned(), path));
    }
    let has_memory = controllers.split(',').any(|one| one == "memory");
    has_memory.then(|| (root.join("memory"), path))
}

/// What is left in one control group, of either version.
fn left_in(directory: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(directory.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let facts = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
    // What was only read from disks is given back when it is needed.
    let given_back: u64 = facts
        .lines()
        .filter_map(|line| {
            let (name, number) = line.split_once(' ')?;
            let is_file = ["inactive_file", "total_inactive_file"].contains(&name);
            is_file.then(|| number.parse::<u64>().ok())?
        })
        .max()
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(given_back)))
}

/// Returns what a build of an image of this name needs, from what the last one used.
pub(crate) fn need(cache: &Path, name: &str) -> Option<u64> {
    let text = disk::read_start(&record(cache, name), 64).ok()?;
    let used: u64 = String::from_utf8(text).ok()?.trim().parse().ok()?;
    // The next version is larger.
    Some(used.saturating_add(used / 5))
}

/// Remembers what a build used.
pub(crate) fn remember(cache: &Path, name: &str, used: u64) {
    let path = record(cache, name);
    // Whatever prevents it prevents nothing else.
    let _ = disk::make_directory(path.parent().unwrap_or(cache))
        .and_then(|()| disk::write(&path, used.to_string().as_bytes()));
}

fn record(cache: &Path, name: &str) -> PathBuf {
    cache.join(USED).join(name)
}

/// Watches how much memory a build uses.
#[derive(Debug)]
pub(crate) struct Gauge {
    directory: PathBuf,
    /// What others use in the same file system.
    others: u64,
    most: u64,
}

impl Gauge {
    /// Begins with a directory that may hold something already.
    pub(crate) fn new(directory: &Path) -> Self {
        let own = crate::leftovers::size_of(directory);
        Self {
            directory: directory.to_owned(),
            others: used_of_file_system(directory).saturating_sub(own),
            most: own,
        }
    }

    /// Looks again, and returns the most that was ever used.
    pub(crate) fn look(&mut self) -> u64 {
        let now = used_of_file_system(&self.directory).saturating_sub(self.others);
        self.most = self.most.max(now);
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    #[test]
    fn what_is_available_is_read() {
        let text = "MemTotal:       24600000 kB\nMemAvailable:   23000000 kB\nCached: 5 kB\n";
        assert_eq!(available(text), Some(23_000_000 * 1024));
    }

    #[test]
    fn a_build_fits_beside_its_programs_only() {
        let free = Free { files: 20 * GB, all: 14 * GB };
        assert_eq!(
            [free.fits(12 * GB, 4), free.fits(12 * GB, 5), free.fits(13 * GB, 4)],
            [true, false, false]
        );
    }

    #[test]
    fn what_fits_into_memory_must_fit_into_the_file_system() {
        let free = Free { files: 2 * GB, all: 100 * GB };
        assert!(!free.fits(3 * GB, 1));
    }

    fn group_of(files: &[(&str, &str)]) -> Option<u64> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        left_in(directory.path())
    }

    #[test]
    fn a_control_group_leaves_what_it_does_not_use() {
        let left = group_of(&[
            ("memory.max", "1000\n"),
            ("memory.current", "600\n"),
            ("memory.stat", "anon 100\ninactive_file 300\n"),
        ]);
        assert_eq!(left, Some(700));
    }

    #[test]
    fn a_control_group_of_the_first_version_is_read_as_well() {
        let left =
            group_of(&[("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "1000\n")]);
        assert_eq!(left, Some(0));
    }

    #[test]
    fn a_control_group_without_a_limit_limits_nothing() {
        let left = group_of(&[("memory.max", "max\n"), ("memory.current", "600\n")]);
        assert_eq!(left, None);
    }

    #[test]
    fn the_next_build_needs_a_little_more_than_the_last_one_used() {
        let cache = tempfile::tempdir().unwrap();
        remember(cache.path(), "app", 1000);
        assert_eq!(need(cache.path(), "app"), Some(1200));
    }

    #[test]
    fn a_damaged_record_is_none() {
        let cache = tempfile::tempdir().unwrap();
        remember(cache.path(), "app", 1000);
        fs::write(record(cache.path(), "app"), "many").unwrap();
        assert_eq!(need(cache.path(), "app"), None);
    }
}
