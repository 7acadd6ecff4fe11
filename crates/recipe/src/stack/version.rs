// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The version of Spack, as far as it matters for what Spack gets.

use std::fmt;

use crate::recipe::FormatVersion;

/// A version of Spack: `1.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpackVersion {
    /// The number before the point.
    pub major: u32,
    /// The number behind the point.
    pub minor: u32,
}

impl SpackVersion {
    /// The versions that Cabane was tested with, from the oldest that can build a recipe to the
    /// newest.
    pub const TESTED: [Self; 4] =
        [Self::new(1, 0), Self::new(1, 1), Self::new(1, 2), Self::new(1, 3)];
    /// The first version that can build a recipe.
    pub const OLDEST: Self = Self::TESTED[0];
    /// The first version whose environments have groups of specs.
    pub const SPEC_GROUPS: Self = Self::new(1, 2);
    /// The newest version that Cabane was tested with. A commit without the name of a version
    /// counts as this version until its files are here.
    pub const NEWEST: Self = Self::TESTED[Self::TESTED.len() - 1];

    /// Makes a version.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Finds the version in the name of a branch or a tag: `releases/v1.1`,
    /// `v1.1.2`.
    #[must_use]
    pub fn in_name(name: &str) -> Option<Self> {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        words.find_map(|word| {
            let mut numbers = word.strip_prefix('v').unwrap_or(word).split('.');
            let major = numbers.next()?.parse().ok()?;
            let minor = numbers.next()?.parse().ok()?;
            Some(Self { major, minor })
        })
    }

    /// Guesses the version of a commit that a recipe names.
    ///
    /// `develop` and no commit are the newest. A commit that only has a number
    /// is one of the time of its format: format 1 ended with 0.23, format 2
    /// with 1.1.
    #[must_use]
    pub fn of_commit(commit: Option<&str>, format: FormatVersion) -> Self {
        match commit {
            None | Some("develop" | "main") => Self::NEWEST,
            Some(name) => Self::in_name(name).unwrap_or(match format {
                FormatVersion::V1 => Self::new(0, 23),
                FormatVersion::V2 => Self::new(1, 1),
                FormatVersion::V3 => Self::NEWEST,
            }),
        }
    }
}

impl fmt::Display for SpackVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_and_tags_name_their_version() {
        let names = [
            "releases/v1.1",
            "v1.1.2",
            "1.0",
            "v0.23.1",
            "develop",
            "099e65c3ef9c",
            "v2026",
            "spack-1.1.0.tar.gz",
        ];
        let found = names.map(|name| SpackVersion::in_name(name).map(|v| v.to_string()));
        let expected =
            [Some("1.1"), Some("1.1"), Some("1.0"), Some("0.23"), None, None, None, Some("1.1")];
        assert_eq!(found, expected.map(|version| version.map(str::to_owned)));
    }

    #[test]
    fn a_commit_without_a_name_is_of_the_time_of_its_format() {
        let commit = Some("099e65c3ef9cbccf618c4dc5de1fcd5a83c5858b");
        let formats = [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3];
        let versions = formats.map(|format| SpackVersion::of_commit(commit, format));
        let expected = [SpackVersion::new(0, 23), SpackVersion::new(1, 1), SpackVersion::NEWEST];
        assert_eq!(versions, expected);
    }
}
