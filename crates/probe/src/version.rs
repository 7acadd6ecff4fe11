// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions, and finding them in what programs say.
//!
//! A program says what it likes, and what it says ends in a file that another program
//! believes. So a version has a narrow grammar, and nothing else gets through.

use std::fmt;

use serde::Serialize;

/// A version as Spack writes one: digits first, then letters, digits, `.`, `_`, `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// The most characters a version has.
    pub const LENGTH: usize = 40;

    /// Returns the version if the text is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_version = text.starts_with(|c: char| c.is_ascii_digit())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= Self::LENGTH
            && text.chars().all(is_inner);
        is_version.then(|| Self(text.to_owned()))
    }

    /// Returns the version with which a text begins, after blanks.
    pub(crate) fn at_start(text: &str) -> Option<Self> {
        let text = text.trim_start_matches([' ', '\t']);
        let is_part =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '~');
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let part = &text[..end];
        // What distributions append: `14.0.6~rc1`, `3.10.2+`.
        let end = part.find(['+', '~']).unwrap_or(part.len());
        Self::new(part[..end].trim_end_matches(['.', '-', '_']))
    }

    /// Returns the version that follows the first of the marks.
    pub(crate) fn after(text: &str, mark: &str) -> Option<Self> {
        let start = text.find(mark)? + mark.len();
        Self::at_start(&text[start..])
    }

    /// Returns the version without anything but its leading digits and dots.
    pub(crate) fn numbers(&self) -> Option<Self> {
        let is_other = |c: char| !(c.is_ascii_digit() || c == '.');
        let end = self.0.find(is_other).unwrap_or(self.0.len());
        Self::new(self.0[..end].trim_end_matches('.'))
    }

    /// Returns the version as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the newest release before this one of which its numbers tell: `4.1.3` for
    /// `4.1.4`, and `4` for `5.0.0`.
    pub(crate) fn before(&self) -> String {
        let mut numbers = self.leading();
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        if let Some(last) = numbers.last_mut() {
            *last = last.saturating_sub(1);
        }
        joined(&numbers)
    }

    /// Returns the release after this one: `4.1.5` for `4.1.4`.
    pub(crate) fn after_it(&self) -> String {
        let mut numbers = self.leading();
        if let Some(last) = numbers.last_mut() {
            *last = last.saturating_add(1);
        }
        joined(&numbers)
    }

    /// The numbers at its beginning.
    fn leading(&self) -> Vec<u64> {
        let is_other = |c: char| !(c.is_ascii_digit() || c == '.');
        let end = self.0.find(is_other).unwrap_or(self.0.len());
        self.0[..end].split('.').filter_map(|part| part.parse().ok()).collect()
    }

    /// Returns what comes first when the newest comes first.
    pub(crate) fn order(&self) -> std::cmp::Reverse<Vec<u64>> {
        let parts = self.0.split(|c: char| !c.is_ascii_digit());
        let numbers = parts.filter(|part| !part.is_empty());
        std::cmp::Reverse(numbers.map(|part| part.parse().unwrap_or(u64::MAX)).collect())
    }
}

fn joined(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes variants that are there or not.
pub(crate) fn signs(parts: &[(&str, bool)]) -> String {
    let sign = |is_there| if is_there { "+" } else { "~" };
    let parts = parts.iter();
    parts.flat_map(|(name, is_there)| [sign(*is_there), name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_version_is_refused() {
        let texts = ["", "v1", "1.", "1 2", "1'", "1\n", "1@2", ".1"];
        assert!(texts.iter().all(|text| Version::new(text).is_none()));
    }

    #[test]
    fn an_addition_of_the_distribution_is_cut_off() {
        let found = Version::after("Python 3.10.2+ (main)", "Python ");
        assert_eq!(found, Version::new("3.10.2"));
    }

    #[test]
    fn the_newest_comes_first_by_number_and_not_by_letter() {
        let mut versions = ["9.5", "12.2.0", "12.10.0"].map(|text| Version::new(text).unwrap());
        versions.sort_by_key(Version::order);
        assert_eq!(versions.map(|v| v.to_string()), ["12.10.0", "12.2.0", "9.5"]);
    }

    proptest! {
        #[test]
        fn a_version_is_found_behind_its_mark_whatever_stands_around(
            before in "[^M]{0,40}",
            version in "[0-9]{1,3}(\\.[0-9a-z]{1,4}){0,4}",
            after in "([ ,;)\n].{0,40})?",
        ) {
            let text = format!("{before}Make {version}{after}");
            prop_assert_eq!(Version::after(&text, "Make "), Version::new(&version));
        }

        #[test]
        fn garbage_gives_nothing_or_a_version(text in any::<String>(), mark in "\\PC{0,3}") {
            let found = Version::after(&text, &mark);
            let is_version = |found: Version| {
                let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                Version::new(found.as_str()).is_some() && found.as_str().chars().all(is_inner)
            };
            prop_assert!(found.is_none_or(is_version));
        }
    }
}
