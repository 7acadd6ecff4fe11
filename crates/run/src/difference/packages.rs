// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which packages differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::inside::Package;

/// A package that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageDifference {
    /// Its name.
    pub name: String,
    /// What installed it.
    pub manager: String,
    /// The versions in the first only, with their hashes where those are known.
    pub from: Vec<String>,
    /// The versions in the second only.
    pub to: Vec<String>,
}

/// Compares two lists of packages, in any order. A package of the same version that was
/// built otherwise differs by its hash.
#[must_use]
pub fn compare_packages(from: &[Package], to: &[Package]) -> Vec<PackageDifference> {
    let mut all: BTreeMap<(String, &str), [BTreeSet<&Package>; 2]> = BTreeMap::new();
    for (side, packages) in [from, to].into_iter().enumerate() {
        for package in packages {
            let key = (same_name(package), package.manager.as_str());
            let sides = all.entry(key).or_default();
            if let Some(side) = sides.get_mut(side) {
                side.insert(package);
            }
        }
    }
    all.into_values().filter_map(|[from, to]| compare(&from, &to)).collect()
}

fn compare(from: &BTreeSet<&Package>, to: &BTreeSet<&Package>) -> Option<PackageDifference> {
    let is_same = |one: &Package, other: &Package| {
        let same_hash = one.hash.is_none() || other.hash.is_none() || one.hash == other.hash;
        one.version == other.version && same_hash
    };
    let only = |one: &BTreeSet<&Package>, other: &BTreeSet<&Package>| -> Vec<Package> {
        let is_other = |package: &&&Package| !other.iter().any(|second| is_same(package, second));
        one.iter().filter(is_other).map(|&package| package.clone()).collect()
    };
    let (from_only, to_only) = (only(from, to), only(to, from));
    let first = from_only.first().or(to_only.first())?;
    // The hash matters only where the version is the same.
    let rebuilt = |package: &Package| {
        let same = |other: &Package| other.version == package.version;
        from_only.iter().any(same) && to_only.iter().any(same)
    };
    let shown = |packages: &[Package]| {
        let version = |package: &Package| match &package.hash {
            Some(hash) if rebuilt(package) => {
                let hash: String = hash.chars().take(7).collect();
                format!("{}/{hash}", package.version)
            }
            _ => package.version.clone(),
        };
        packages.iter().map(version).collect()
    };
    Some(PackageDifference {
        name: first.name.clone(),
        manager: first.manager.clone(),
        from: shown(&from_only),
        to: shown(&to_only),
    })
}

/// Names of wheels are the same with `-`, `_`, and `.`, large and small.
fn same_name(package: &Package) -> String {
    if package.manager == "python" {
        package.name.to_lowercase().replace(['_', '.'], "-")
    } else {
        package.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, hash: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            manager: if hash.is_some() { "spack" } else { "python" }.to_owned(),
            hash: hash.map(str::to_owned),
        }
    }

    fn describe(from: &[Package], to: &[Package]) -> Vec<(Vec<String>, Vec<String>)> {
        let differences = compare_packages(from, to).into_iter();
        differences.map(|one| (one.from, one.to)).collect()
    }

    #[test]
    fn another_version_is_one_difference() {
        let differences = describe(&[package("numpy", "1", None)], &[package("numpy", "2", None)]);
        assert_eq!(differences, [(vec!["1".to_owned()], vec!["2".to_owned()])]);
    }

    #[test]
    fn the_spelling_of_a_wheel_is_no_difference() {
        let one = package("Foo_Bar", "1", None);
        assert_eq!(describe(&[one], &[package("foo-bar", "1", None)]), []);
    }

    #[test]
    fn the_same_version_built_otherwise_differs_by_its_hash() {
        let one = package("hdf5", "1.14", Some("aaaaaaaaaa"));
        let other = package("hdf5", "1.14", Some("bbbbbbbbbb"));
        let expected = (vec!["1.14/aaaaaaa".to_owned()], vec!["1.14/bbbbbbb".to_owned()]);
        assert_eq!(describe(&[one], &[other]), [expected]);
    }
}
