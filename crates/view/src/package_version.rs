// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions of packages, and sets of them, ordered as Spack orders them.
//!
//! A version is cut into numbers and names. Names come before numbers, and names of branches
//! after them, so that `develop` is newer than every release. `alpha`, `beta`, and `rc` at the
//! end come before the release itself.

/// The names of branches, in their order.
const BRANCHES: [&str; 7] = ["stable", "nightly", "trunk", "head", "master", "main", "develop"];
const PRERELEASES: [&str; 3] = ["alpha", "beta", "rc"];

/// A part of a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Component {
    Name(String),
    Number(u64),
    Branch(usize),
}

/// How far a release is; what is none counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Before(usize, Option<u64>),
    Done,
}

/// A version that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackageVersion {
    release: Vec<Component>,
    stage: Stage,
}

/// Compares two versions of a package as Spack does, and texts that mean the same by their letters.
#[must_use]
pub fn version_order(one: &str, other: &str) -> std::cmp::Ordering {
    PackageVersion::read(one).cmp(&PackageVersion::read(other)).then_with(|| one.cmp(other))
}

impl PackageVersion {
    /// Reads any text; separators between the components do not matter.
    pub(crate) fn read(text: &str) -> Self {
        let mut parts = components(text);
        let stage = take_stage(&mut parts);
        let release = parts.into_iter().map(component).collect();
        Self { release, stage }
    }

    /// Whether another version is one of those that this one stands for: `1.14` for `1.14.3`.
    fn covers(&self, other: &Self) -> bool {
        match (self.stage, other.stage) {
            (Stage::Done, _) => other.release.starts_with(&self.release),
            (Stage::Before(..), Stage::Done) => false,
            (Stage::Before(name, number), Stage::Before(other_name, other_number)) => {
                let is_same = self.release == other.release && name == other_name;
                is_same && (number.is_none() || number == other_number)
            }
        }
    }
}

/// Cuts a version into runs of digits and of letters.
fn components(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_same: fn(char) -> bool = match first {
            c if c.is_ascii_digit() => |c| c.is_ascii_digit(),
            c if c.is_ascii_alphabetic() => |c| c.is_ascii_alphabetic(),
            _ => |c| !c.is_ascii_alphanumeric(),
        };
        let end = rest.find(|c| !is_same(c)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        if first.is_ascii_alphanumeric() {
            parts.push(part);
        }
        rest = after;
    }
    parts
}

/// Takes `rc1` or `rc` off the end.
fn take_stage(parts: &mut Vec<&str>) -> Stage {
    let stage = |part: &str| PRERELEASES.iter().position(|known| *known == part);
    let found = match parts.as_slice() {
        [_, .., part, number] if stage(part).is_some() => {
            let number = number.parse().ok();
            number.and_then(|number| Some((2, Stage::Before(stage(part)?, Some(number)))))
        }
        [_, .., part] => stage(part).map(|name| (1, Stage::Before(name, None))),
        _ => None,
    };
    let Some((count, stage)) = found else {
        return Stage::Done;
    };
    parts.truncate(parts.len() - count);
    stage
}

fn component(part: &str) -> Component {
    if part.starts_with(|c: char| c.is_ascii_digit()) {
        // Longer numbers than these are sums of commits, which have no order anyway.
        return Component::Number(part.parse().unwrap_or(u64::MAX));
    }
    match BRANCHES.iter().position(|branch| *branch == part) {
        Some(number) => Component::Branch(number),
        None => Component::Name(part.to_owned()),
    }
}

/// Some versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionRange {
    /// `=1.14.3`: this one and no other.
    Exact(PackageVersion),
    /// `1.12:1.14`, of which either end may be open; `1.14` is a range from itself to itself.
    Between { low: Option<PackageVersion>, high: Option<PackageVersion> },
}

impl VersionRange {
    pub(crate) fn contains(&self, version: &PackageVersion) -> bool {
        match self {
            Self::Exact(exact) => exact == version,
            Self::Between { low, high } => {
                let is_below = |high: &PackageVersion| version <= high || high.covers(version);
                low.as_ref().is_none_or(|low| low <= version) && high.as_ref().is_none_or(is_below)
            }
        }
    }

    /// Whether no version can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Between { low: Some(low), high: Some(high) } => low > high && !high.covers(low),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> PackageVersion {
        PackageVersion::read(text)
    }

    #[test]
    fn versions_are_in_the_order_of_spack() {
        let order = [
            "1.2a",
            "1.2.0rc1",
            "1.2.0",
            "1.2.0.1",
            "1.2.1",
            "1.10",
            "1.11alpha1",
            "1.11beta",
            "1.11rc2",
            "1.11",
            "2024.1",
            "stable",
            "main",
            "develop",
        ];
        for (one, next) in order.iter().zip(&order[1..]) {
            assert!(version(one) < version(next), "{one} < {next}");
        }
    }

    #[test]
    fn separators_do_not_matter() {
        assert_eq!(version("1_14-3"), version("1.14.3"));
    }

    #[test]
    fn a_version_stands_for_those_that_begin_with_it() {
        let range = VersionRange::Between { low: Some(version("1.1")), high: Some(version("1.1")) };
        let seen =
            ["1.1", "1.1.7", "1.10", "1.0", "1.1rc1"].map(|text| range.contains(&version(text)));
        assert_eq!(seen, [true, true, false, false, false]);
    }
}
