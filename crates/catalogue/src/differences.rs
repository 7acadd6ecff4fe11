// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which packages are different in two images. Pure.

use std::collections::BTreeMap;

use crate::model::Line;

/// A package that is different.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference<'a> {
    pub(crate) name: &'a str,
    /// The versions before; empty if it is new.
    pub(crate) before: String,
    /// The versions now; empty if it is gone.
    pub(crate) now: String,
}

/// Lists the packages that are different. Variants are named where the versions are the same.
pub(crate) fn differences<'a>(
    before: &[&'a Line<'a>],
    now: &[&'a Line<'a>],
) -> Vec<Difference<'a>> {
    let (old, new) = (by_name(before), by_name(now));
    let mut found = Vec::new();
    let names = old.keys().chain(new.keys()).copied().collect::<std::collections::BTreeSet<_>>();
    for name in names {
        let (old, new) = (old.get(name), new.get(name));
        let builds = |lines: Option<&Vec<&Line<'a>>>| -> Vec<String> {
            let mut texts: Vec<_> = lines.into_iter().flatten().map(|line| build(line)).collect();
            texts.sort();
            texts.dedup();
            texts
        };
        let (old_builds, new_builds) = (builds(old), builds(new));
        if old_builds == new_builds {
            continue;
        }
        let versions = |lines: Option<&Vec<&Line<'a>>>| -> Vec<&str> {
            lines.into_iter().flatten().map(|line| line.package.version).collect()
        };
        let (old_versions, new_versions) = (versions(old), versions(new));
        let (before, now) = if old_versions == new_versions {
            (old_builds, new_builds)
        } else {
            let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
            (owned(old_versions), owned(new_versions))
        };
        found.push(Difference { name, before: before.join(", "), now: now.join(", ") });
    }
    found
}

fn by_name<'a>(lines: &[&'a Line<'a>]) -> BTreeMap<&'a str, Vec<&'a Line<'a>>> {
    let mut names: BTreeMap<&str, Vec<&Line<'_>>> = BTreeMap::new();
    for line in lines {
        names.entry(line.package.name).or_default().push(line);
    }
    names
}

/// How a package was built, in words.
fn build(line: &Line<'_>) -> String {
    let package = &line.package;
    let compilers = package.compilers.split_terminator(',').map(|one| format!("%{one}"));
    let parts =
        [package.version.to_owned(), package.variants.to_owned()].into_iter().chain(compilers);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
