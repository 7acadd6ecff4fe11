// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions of the GNU C library, and the one of this machine.

use std::fs::File;

use crate::GlibcVersion;
use crate::versions;

/// Where the C library is, on one distribution or another.
#[cfg(target_arch = "x86_64")]
pub(crate) const PLACES: [&str; 3] =
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
#[cfg(target_arch = "aarch64")]
pub(crate) const PLACES: [&str; 3] =
    ["/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const PLACES: [&str; 2] = ["/lib64/libc.so.6", "/usr/lib/libc.so.6"];

/// Returns the version of the GNU C library of this machine, if it has one that can be
/// found.
#[must_use]
pub fn glibc() -> Option<GlibcVersion> {
    let mut places = PLACES.iter();
    places.find_map(|place| versions::newest(&File::open(place).ok()?))
}

/// Returns the version of this machine if it is older than what is needed. This is
/// cheaper than to ask for the version and compare.
#[must_use]
pub fn older_glibc(needed: GlibcVersion) -> Option<GlibcVersion> {
    let mut places = PLACES.iter();
    let has = places.find_map(|place| versions::defines(&File::open(place).ok()?, needed))?;
    // A library may leave out the name of a version in which nothing was added.
    (!has).then(glibc)?.filter(|&found| found < needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Option<GlibcVersion> {
        text.parse().ok()
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("2.4") < version("2.36"));
    }

    #[test]
    fn a_patch_level_does_not_count() {
        assert_eq!(version("2.2.5"), version("2.2"));
    }

    #[test]
    fn words_are_no_version() {
        assert_eq!(["PRIVATE", "2", "2.x", ""].map(version), [None; 4]);
    }
}
