// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions as Spack compares them, as far as that is certain.

use std::cmp::Ordering;

/// Names of versions that are newer than all numbers, the newest first.
const NEWEST: [&str; 6] = ["develop", "main", "master", "head", "trunk", "stable"];

/// A version in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version<'t>(Vec<Part<'t>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'t> {
    Number(u64),
    Word(&'t str),
}

impl<'t> Version<'t> {
    fn of(text: &'t str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let is_same = |c: char| match character {
                '0'..='9' => c.is_ascii_digit(),
                'a'..='z' | 'A'..='Z' => c.is_ascii_alphabetic(),
                _ => false,
            };
            let length = rest.find(|c| !is_same(c)).unwrap_or(rest.len());
            if length == 0 {
                rest = &rest[character.len_utf8()..];
                continue;
            }
            let part = &rest[..length];
            parts.push(match part.parse() {
                Ok(number) => Part::Number(number),
                Err(_) => Part::Word(part),
            });
            rest = &rest[length..];
        }
        Self(parts)
    }

    /// Whether the other one is this one, or a more precise form of it.
    fn begins(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Compares two versions; `None` where letters decide: `1.0rc1` comes before `1.0`, and
    /// `1.0a` may come after it.
    fn compare(&self, other: &Self) -> Option<Ordering> {
        let rank = |part: &Part<'_>| match part {
            Part::Number(_) => Some(0),
            Part::Word(word) => {
                let found = NEWEST.iter().position(|newest| newest == word)?;
                Some(NEWEST.len() - found)
            }
        };
        for (one, another) in self.0.iter().zip(&other.0) {
            let order = match (one, another) {
                (Part::Number(one), Part::Number(another)) => one.cmp(another),
                _ if one == another => Ordering::Equal,
                _ => rank(one)?.cmp(&rank(another)?),
            };
            if order != Ordering::Equal {
                return Some(order);
            }
        }
        let (longer, length) = match self.0.len().cmp(&other.0.len()) {
            Ordering::Equal => return Some(Ordering::Equal),
            Ordering::Less => (other, self.0.len()),
            Ordering::Greater => (self, other.0.len()),
        };
        let is_number = matches!(longer.0.get(length), Some(Part::Number(_)));
        is_number.then(|| self.0.len().cmp(&other.0.len()))
    }
}

/// Whether versions are asked for that a package recipe need not declare: commits, branches
/// and tags of Git.
pub(crate) fn is_git(constraint: &str) -> bool {
    let is_commit = |one: &str| one.len() == 40 && one.bytes().all(|byte| byte.is_ascii_hexdigit());
    constraint.split(',').any(|one| {
        one.starts_with("git.")
            || one.contains('/')
            || one[1.min(one.len())..].contains('=')
            || is_commit(one)
    })
}

/// The exact version, if one alone is asked for: `1.2` of `=1.2`.
pub(crate) fn exact(constraint: &str) -> Option<&str> {
    constraint.strip_prefix('=').filter(|one| !one.contains([',', ':']))
}

/// Whether a version may be one of those that are asked for. What cannot be decided may.
pub(crate) fn may_satisfy(version: &str, constraint: &str) -> bool {
    let version = Version::of(version);
    constraint.split(',').any(|one| is_within(&version, one))
}

fn is_within(version: &Version<'_>, range: &str) -> bool {
    if let Some(exact) = range.strip_prefix('=') {
        return *version == Version::of(exact);
    }
    let Some((from, to)) = range.split_once(':') else {
        return Version::of(range).begins(version);
    };
    let is_not = |order: Option<Ordering>, wrong| order != Some(wrong);
    let (from, to) = (Version::of(from), Version::of(to));
    let is_late = from.0.is_empty() || is_not(version.compare(&from), Ordering::Less);
    let is_early =
        to.0.is_empty() || to.begins(version) || is_not(version.compare(&to), Ordering::Greater);
    is_late && is_early
}

/// The newest numbers among versions, at most as many as wanted, and without those that a
/// name makes the newest.
pub(crate) fn newest<'v>(versions: impl Iterator<Item = &'v str>, wanted: usize) -> Vec<&'v str> {
    let is_number = |version: &Version<'_>| {
        version.0.iter().all(|part| !matches!(part, Part::Word(word) if NEWEST.contains(word)))
    };
    let mut all: Vec<_> = versions.map(|text| (Version::of(text), text)).collect();
    all.retain(|(version, _)| is_number(version));
    let order = |one: &Version<'_>, other: &Version<'_>| {
        // What has letters behind its numbers is a test version more often than not.
        numbers(other).cmp(&numbers(one))
    };
    all.sort_by(|(one, _), (other, _)| order(one, other));
    all.into_iter().map(|(_, text)| text).take(wanted).collect()
}

/// The version that is nearest to those that are asked for: it has the most first numbers in
/// common with them, then the smallest difference in the next one. Of two that are as near, it is
/// the newer. `None` if none begins with a number, or none is asked for.
#[must_use]
pub fn nearest<'v>(versions: &[&'v str], constraint: &str) -> Option<&'v str> {
    let last = constraint.rsplit(',').next()?.trim_start_matches('=');
    let wanted = match last.split_once(':') {
        Some((from, "")) => from,
        Some((_, to)) => to,
        None => last,
    };
    let wanted = numbers(&Version::of(wanted));
    wanted.first()?;
    let nearness = |text: &&&str| {
        let found = numbers(&Version::of(text));
        let common = wanted.iter().zip(&found).take_while(|(one, other)| one == other).count();
        let next = |all: &[u64]| all.get(common).copied().unwrap_or_default();
        let distance = next(&wanted).abs_diff(next(&found));
        (common, std::cmp::Reverse(distance), found)
    };
    let has_numbers = |text: &&&str| !numbers(&Version::of(text)).is_empty();
    versions.iter().filter(has_numbers).max_by_key(nearness).copied()
}

/// The numbers at the beginning of a version.
fn numbers(version: &Version<'_>) -> Vec<u64> {
    let number = |part: &Part<'_>| match part {
        Part::Number(number) => Some(*number),
        Part::Word(_) => None,
    };
    version.0.iter().map_while(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_chosen_as_spack_does() {
        let yes = [
            ("1.14.6", "1.14"),
            ("1.14", "1.14"),
            ("1.14.4-3", "1.14.4"),
            ("1.14.6", "1.12:"),
            ("1.14.6", ":1.14"),
            ("1.14.6", "1.12:1.14"),
            ("develop", "1.12:"),
            ("develop-1.14", "develop"),
            ("1.2", "=1.2"),
            ("2.0", "1.0,2.0"),
            ("2025b", "2025a:"),
            ("1.0rc1", "1.0:"),
            ("main", "main"),
            ("11.0.0", ":11"),
        ];
        for (version, constraint) in yes {
            assert!(may_satisfy(version, constraint), "{version} {constraint}");
        }
        let no = [
            ("1.14.6", "1.1"),
            ("1.14.6", "1.15:"),
            ("1.14.6", ":1.13"),
            ("1.14.6", "=1.14"),
            ("main", "develop"),
            ("1.3.1", "1.99"),
            ("2.0", "main"),
            ("2.0", "main:"),
            ("stable", "main:"),
        ];
        for (version, constraint) in no {
            assert!(!may_satisfy(version, constraint), "{version} {constraint}");
        }
    }

    #[test]
    fn the_newest_numbers_are_found() {
        let all = ["develop", "1.9", "1.10.2", "1.10.10", "main-2", "1.10.10-rc1"];
        assert_eq!(newest(all.into_iter(), 3), ["1.10.10", "1.10.10-rc1", "1.10.2"]);
    }

    #[test]
    fn the_nearest_version_has_the_most_in_common() {
        let all = ["develop", "2.1.0", "1.14.6", "1.14.3", "1.14.0-rc1", "1.12.3", "1.10.11"];
        let found = [
            ("1.14.1", Some("1.14.0-rc1")),
            ("=1.14.2", Some("1.14.3")),
            ("1.13", Some("1.14.6")),
            (":1.9", Some("1.10.11")),
            ("3:", Some("2.1.0")),
            ("0.5,=1.12.2", Some("1.12.3")),
            ("main", None),
        ];
        for (wanted, nearest) in found {
            assert_eq!(super::nearest(&all, wanted), nearest, "{wanted}");
        }
    }

    #[test]
    fn references_of_git_are_told_from_versions() {
        for git in
            ["git.main=1.2", "main=1.2", "git.abc", "0123456789012345678901234567890123456789"]
        {
            assert!(is_git(git), "{git}");
        }
        for version in ["1.2", "=1.2", "develop", "1.2:1.4,=1.5"] {
            assert!(!is_git(version), "{version}");
        }
        assert_eq!((exact("=1.2"), exact("1.2"), exact("=1.2,1.3")), (Some("1.2"), None, None));
    }
}
