// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compiled files of Python, which all builds share.
//!
//! Python takes a compiled file if time and size of the source are those that it noted.
//! All commits of a repository have the same path inside of the sandbox. So times follow
//! from contents: what a new commit did not change is not compiled again, and two files
//! written in the same second are not taken for each other.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::fingerprint;
use crate::{BuildError, Result, disk};

/// The earliest time, in seconds since 1970, and how many follow: 1980 to 1998. Spack
/// makes its indices again when packages are newer.
const FIRST: u64 = 315_532_800;
const SECONDS: u64 = 600_000_000;

/// Gives the sources of Python below a directory their times.
pub(super) fn settle(directory: &Path) -> Result<()> {
    for entry in disk::entries("list", directory)? {
        let path = entry.path();
        let failed = || BuildError::file("change the time of", &path);
        let kind = entry.file_type().map_err(failed())?;
        if kind.is_dir() {
            settle(&path)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "py") {
            let content = fs::read(&path).map_err(failed())?;
            let time = UNIX_EPOCH + Duration::from_secs(seconds(&content));
            File::open(&path).and_then(|file| file.set_modified(time)).map_err(failed())?;
        }
    }
    Ok(())
}

fn seconds(content: &[u8]) -> u64 {
    let digest = fingerprint::of_bytes(content);
    let start = digest.as_str().get(..12).unwrap_or_default();
    FIRST + u64::from_str_radix(start, 16).unwrap_or_default() % SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_source_follows_from_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let time_of = |name: &str, text: &str| {
            let path = directory.path().join(name);
            disk::put(&path, text).unwrap();
            settle(directory.path()).unwrap();
            let time = path.metadata().unwrap().modified().unwrap();
            time.duration_since(UNIX_EPOCH).unwrap().as_secs()
        };
        let one = time_of("packages/a/package.py", "version(1)");
        assert!((FIRST..FIRST + SECONDS).contains(&one), "{one}");
        assert_eq!(time_of("packages/b/package.py", "version(1)"), one);
        assert_ne!(time_of("packages/a/package.py", "version(2)"), one);
    }

    #[test]
    fn other_files_keep_their_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fix.patch");
        disk::put(&path, "").unwrap();
        let time = || path.metadata().unwrap().modified().unwrap();
        let before = time();
        settle(directory.path()).unwrap();
        assert_eq!(time(), before);
    }
}
