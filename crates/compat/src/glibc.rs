// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions of the GNU C library, and the one of this machine.

use std::fmt;
use std::fs::File;
use std::str::FromStr;

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

/// A version of the GNU C library: `2.36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlibcVersion {
    major: u32,
    minor: u32,
}

/// A text that is no version of the GNU C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlibcVersionError;

impl FromStr for GlibcVersion {
    type Err = GlibcVersionError;

    /// Reads `2.36`; what follows a second point, as in `2.2.5`, does not count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if numbers.all(|number| number.is_ok()) => {
                Ok(Self { major, minor })
            }
            _ => Err(GlibcVersionError),
        }
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl GlibcVersion {
    #[cfg(test)]
    pub(crate) fn next(self) -> Self {
        Self { minor: self.minor + 1, ..self }
    }
}

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
    fn names_are_no_version() {
        assert_eq!(["PRIVATE", "2", "2.x", ""].map(version), [None; 4]);
    }
}
