// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions, and the names of archives with them.

use std::fmt;

/// The version of a release: three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

impl Version {
    /// Returns the version of this program.
    #[must_use]
    pub fn running() -> Self {
        Self::parse(env!("CARGO_PKG_VERSION")).unwrap_or(Self([0; 3]))
    }

    /// Reads `1.2.3`; `None` for everything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| {
            let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| number.parse().ok()).flatten()
        });
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(Self(version))
    }

    /// Reads the version from the name of an archive for this processor, as `scripts/archive` gives it.
    pub(crate) fn of_archive(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("cabane-")?.strip_suffix(".tar.gz")?;
        let version = rest.strip_suffix(std::env::consts::ARCH)?.strip_suffix("-linux-")?;
        Self::parse(version)
    }

    /// Returns the name of the archive of this version for this processor.
    pub(crate) fn archive(self) -> String {
        format!("cabane-{self}-linux-{}.tar.gz", std::env::consts::ARCH)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_and_compares_by_them() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("0.10.0") > version("0.9.9"));
        for wrong in
            ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.+3", "1.2.-3", " 1.2.3", "1.2.99999999999"]
        {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_name_of_an_archive_has_its_version() {
        let version = Version::running();
        assert_eq!(Version::of_archive(&version.archive()), Some(version));
        let other = if std::env::consts::ARCH == "x86_64" { "aarch64" } else { "x86_64" };
        for wrong in
            [format!("cabane-1.2.3-linux-{other}.tar.gz"), "cabane_1.2.3_amd64.deb".to_owned()]
        {
            assert_eq!(Version::of_archive(&wrong), None, "{wrong}");
        }
    }
}
