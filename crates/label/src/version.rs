// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The order of versions.

use std::cmp::Ordering;

use crate::Version;

impl Version {
    /// Compares two versions as people do: numbers by value, the rest as text. `24.7` is before
    /// `24.11`, `1.0` before `1.0.1`, and `1.0-rc1` before `1.0`.
    #[must_use]
    pub fn natural_order(&self, other: &Self) -> Ordering {
        let (mut ours, mut theirs) = (pieces(self.as_str()), pieces(other.as_str()));
        loop {
            let order = match (ours.next(), theirs.next()) {
                (None, None) => return Ordering::Equal,
                (Some(more), None) if is_before_release(more.2) => Ordering::Less,
                (None, Some(more)) if is_before_release(more.2) => Ordering::Greater,
                (one, other) => one.cmp(&other),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
    }
}

/// Whether a suffix marks what comes before a release.
fn is_before_release(piece: &str) -> bool {
    let word = piece.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
    matches!(word.as_str(), "rc" | "alpha" | "beta" | "pre" | "dev")
}

/// Cuts a version into numbers and what is between them. A number is compared by its length first.
fn pieces(text: &str) -> impl Iterator<Item = (bool, usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_number = rest.bytes().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        let digits = piece.trim_start_matches('0');
        Some(if is_number { (true, digits.len(), digits) } else { (false, 0, piece) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let versions = ["1.0-rc1", "1.0", "1.0.1", "1.2", "1.10", "24.7", "24.11", "2025.1"];
        let versions = versions.map(|text| text.parse::<Version>().unwrap());
        let mut sorted = versions.clone();
        sorted.sort_by(Version::natural_order);
        assert_eq!(sorted, versions);
        let same: [Version; 2] = ["1.02".parse().unwrap(), "1.2".parse().unwrap()];
        assert_eq!(same[0].natural_order(&same[1]), Ordering::Equal);
    }
}
