// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long packages took, in all builds so far.
//!
//! One file in the cache, one line per package that was installed:
//!
//! ```text
//! <cache>/spack/durations-1
//!     built mpich 4.0.2 q6ugoegrolzq4qjmztj33ihhjbuhv352k 361.9
//!     taken lz4 1.10.0 rowvn6wdi7kanpat5tzoivqippp3ue6i 0.8
//! ```
//!
//! Builds append to it without asking each other; the last line about a package counts,
//! and one that is damaged counts for nothing. Only what is shown depends on it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Origin, disk};

const FILE: &str = "spack/durations-1";
/// Larger files are written anew with what counts.
const LARGEST: u64 = 1 << 20;
/// How many packages these are at most.
const MOST: usize = 8000;
/// Nothing takes longer than a month.
const LONGEST: f64 = 31.0 * 86_400.0;

/// How long packages took.
#[derive(Debug, Default)]
pub(super) struct Durations {
    path: PathBuf,
    known: HashMap<String, Duration>,
}

impl Durations {
    /// Reads what is known. What cannot be read is not known.
    pub(super) fn read(cache: &Path) -> Self {
        let path = cache.join(FILE);
        let text = disk::read_start(&path, 4 * LARGEST).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut known = HashMap::new();
        for (key, took) in text.lines().filter_map(parse) {
            // Later lines replace earlier ones; so the version alone says what it took
            // last, whatever the hash.
            let less = key.rsplit_once(' ').map(|(less, _)| less.to_owned());
            known.extend(less.map(|less| (less, took)));
            known.insert(key.to_owned(), took);
        }
        let durations = Self { path, known };
        durations.tidy(&text);
        durations
    }

    /// Returns how long a package took last time: this one, or one of its version. `package`
    /// is its name, its version and its hash, with a space between them.
    pub(super) fn of(&self, origin: Origin, package: &str) -> Option<Duration> {
        let exact = format!("{} {package}", name_of(origin));
        let version = || self.known.get(exact.rsplit_once(' ')?.0);
        self.known.get(&exact).or_else(version).copied()
    }

    /// Remembers how long a package took.
    pub(super) fn remember(&self, origin: Origin, package: &str, took: Duration) {
        let line = format!("{} {package} {:.1}\n", name_of(origin), took.as_secs_f64());
        // Whatever prevents it prevents nothing else.
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    /// Writes the file anew if it has become long, with the last line about each of the
    /// packages that were seen last. What another build adds meanwhile may be lost.
    fn tidy(&self, text: &str) {
        if (text.len() as u64) < LARGEST {
            return;
        }
        let mut seen = HashSet::new();
        let last = text
            .lines()
            .rev()
            .filter(|line| parse(line).is_some_and(|(key, _)| seen.insert(key.to_owned())));
        let kept: Vec<&str> = last.take(MOST).collect();
        let kept: String = kept.iter().rev().flat_map(|line| [*line, "\n"]).collect();
        let new = self.path.with_extension(std::process::id().to_string());
        let _ = fs::write(&new, kept).and_then(|()| fs::rename(&new, &self.path));
    }
}

fn name_of(origin: Origin) -> &'static str {
    match origin {
        Origin::Built => "built",
        Origin::Cache => "taken",
    }
}

/// Splits a line into what it is about and how long that took.
fn parse(line: &str) -> Option<(&str, Duration)> {
    let (key, seconds) = line.rsplit_once(' ')?;
    let is_complete = key.split(' ').filter(|part| !part.is_empty()).count() == 4;
    let seconds: f64 = seconds.parse().ok()?;
    let is_possible = is_complete && (0.0..LONGEST).contains(&seconds);
    is_possible.then(|| (key, Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MPICH: &str = "mpich 4.0.2 q6ugoeg";

    fn cache() -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir(cache.path().join("spack")).unwrap();
        cache
    }

    fn remember(cache: &Path, package: &str, seconds: u64) {
        let durations = Durations::read(cache);
        durations.remember(Origin::Built, package, Duration::from_secs(seconds));
    }

    fn of(cache: &Path, package: &str) -> Option<u64> {
        let took = Durations::read(cache).of(Origin::Built, package);
        took.map(|took| took.as_secs())
    }

    #[test]
    fn the_last_duration_of_a_package_counts() {
        let cache = cache();
        remember(cache.path(), MPICH, 300);
        remember(cache.path(), MPICH, 362);
        assert_eq!(of(cache.path(), MPICH), Some(362));
    }

    #[test]
    fn another_build_of_the_same_version_is_the_best_guess() {
        let cache = cache();
        remember(cache.path(), MPICH, 362);
        assert_eq!(of(cache.path(), "mpich 4.0.2 zzzzzzz"), Some(362));
    }

    #[test]
    fn a_package_from_a_cache_says_nothing_about_building_it() {
        let cache = cache();
        let durations = Durations::read(cache.path());
        durations.remember(Origin::Cache, MPICH, Duration::from_secs(1));
        assert_eq!(of(cache.path(), MPICH), None);
    }

    #[test]
    fn damaged_lines_count_for_nothing() {
        let cache = cache();
        remember(cache.path(), MPICH, 362);
        let path = cache.path().join(FILE);
        let mut text = fs::read(&path).unwrap();
        text.extend(b"\xff\0 built\nbuilt mpich 4.0.2 q6ugoeg NaN\nbuilt mpich 4.0.2 q6ugoeg -1\n");
        text.extend(
            b"built mpich 4.0.2 q6ugoeg 1e300\nbuilt mpich 4.0.2 7\nbuilt mpich 4.0.2 q6ugoe",
        );
        fs::write(&path, text).unwrap();
        assert_eq!(of(cache.path(), MPICH), Some(362));
    }

    #[test]
    fn a_long_file_is_written_anew_and_says_the_same() {
        let cache = cache();
        let path = cache.path().join(FILE);
        let line = "built mpich 4.0.2 q6ugoeg 300.0\n";
        fs::write(&path, line.repeat(50_000)).unwrap();
        remember(cache.path(), MPICH, 362);
        assert_eq!(of(cache.path(), MPICH), Some(362));
        assert!(fs::metadata(&path).unwrap().len() < 100);
    }
}
