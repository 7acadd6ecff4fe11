// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions of the GNU C library.

use std::fmt;
use std::str::FromStr;

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
