// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock file beside a requirements file. Its head says from what it was made, so that the build
//! notices when that has changed, without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{ListFormat, PackageList, python_name};

use crate::lock_packages::Versions;
use crate::{Result, disk, fingerprint};

/// How the first line begins. Another file is none of these.
const FIRST: &str = "# Written by `cabane lock`";
/// The lines of the head that are compared.
const PYTHON: &str = "# python: ";
const REQUIRES: &str = "# requires: ";
const WHEEL: &str = "# wheel: ";
/// The longest first line that is looked at, in bytes.
const HEAD: u64 = 256;

/// Returns where the lock file of a requirements file is: `requirements.lock` for `requirements.txt`.
pub(crate) fn path_for(requirements: &Path) -> PathBuf {
    let lock = requirements.with_extension("lock");
    if lock == requirements { requirements.with_extension("lock.lock") } else { lock }
}

/// Whether a file was written by `cabane lock`.
pub(crate) fn is_one(path: &Path) -> bool {
    disk::read_start(path, HEAD).is_ok_and(|head| head.starts_with(FIRST.as_bytes()))
}

/// From what a lock file is made.
#[derive(Clone, Debug)]
pub(super) struct Origin<'a> {
    /// The requirements file, as the recipe names it.
    pub(super) requirements: &'a Path,
    /// What the requirements say.
    pub(super) lines: &'a BTreeSet<String>,
    /// Further wheels, by their path in the recipe.
    pub(super) wheels: &'a BTreeMap<PathBuf, PathBuf>,
    /// The version of the interpreter: `3.11.2`.
    pub(super) python: &'a str,
}

impl Origin<'_> {
    /// Returns the whole text of a lock file with these packages.
    pub(super) fn text(&self, packages: &str) -> String {
        let mut text = format!(
            "{FIRST} from {}; do not edit.\n{PYTHON}{}\n",
            escape(&self.requirements.to_string_lossy()),
            minor(self.python)
        );
        let wheels = self
            .wheels
            .keys()
            .map(|wheel| format!("{WHEEL}{}\n", escape(&wheel.to_string_lossy())));
        let lines = self.lines.iter().map(|line| format!("{REQUIRES}{}\n", escape(line)));
        text.extend(lines.chain(wheels));
        text + packages
    }

    /// Returns why a lock file is not for this, if it is not.
    pub(super) fn mismatch(&self, lock: &str) -> Result<Option<String>> {
        let all = |key: &str| -> BTreeSet<String> {
            lock.lines().filter_map(|line| line.strip_prefix(key).map(str::to_owned)).collect()
        };
        let python = all(PYTHON);
        if let Some(locked) = python.first().filter(|locked| **locked != minor(self.python)) {
            let (locked, python) = (escape(locked), escape(self.python));
            return Ok(Some(format!("it is for Python {locked}, and the build uses {python}")));
        }
        let (locked, now) =
            (all(REQUIRES), self.lines.iter().map(|line| escape(line).to_string()).collect());
        if let Some(line) = difference(&locked, &now) {
            return Ok(Some(line));
        }
        let wheels = self.wheels.keys().map(|wheel| escape(&wheel.to_string_lossy()).to_string());
        if let Some(line) = difference(&all(WHEEL), &wheels.collect()) {
            return Ok(Some(line));
        }
        for (wheel, real) in self.wheels {
            let digest =
                fingerprint::of_file(real).map_err(crate::BuildError::file("read", real))?;
            if !lock.contains(&format!("--hash=sha256:{digest}")) {
                return Ok(Some(format!("{} has changed", shown(wheel))));
            }
        }
        Ok(None)
    }
}

/// Says what one of two sets has and the other has not.
fn difference(locked: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let new = now.difference(locked).next().map(|line| format!("it was made without `{line}`"));
    new.or_else(|| {
        let gone = locked.difference(now).next()?;
        Some(format!("it was made with `{gone}`, which is gone"))
    })
}

/// `3.11` of `3.11.2`
fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns the packages of a lock file of requirements, without its head.
pub(super) fn packages(lock: &str) -> String {
    let is_head =
        |line: &str| [FIRST, PYTHON, REQUIRES, WHEEL].iter().any(|key| line.starts_with(key));
    lock.split_inclusive('\n').filter(|line| !is_head(line)).collect()
}

/// Returns the versions in a lock file of requirements.
pub(super) fn versions(lock: &str) -> Result<Versions> {
    let list = PackageList::read(lock, &ListFormat::Requirements)?;
    let entries = list.packages().iter().map(|package| {
        let entry = package.text.split(';').next().unwrap_or_default().trim();
        if let Some(wheel) = entry.strip_prefix("./") {
            let name = wheel.rsplit('/').next().unwrap_or(wheel);
            let mut parts = name.split('-');
            let name = python_name(parts.next().unwrap_or_default());
            return (name, parts.next().unwrap_or_default().to_owned());
        }
        let version = entry.split_once("==").or_else(|| entry.split_once('@'));
        (package.name.clone(), version.map_or("", |(_, version)| version.trim()).to_owned())
    });
    Ok(collected(entries))
}

/// Returns the versions in a `uv.lock`, without the project itself.
pub(super) fn versions_of_uv_lock(lock: &str) -> Versions {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let of_project = |block: &&str| {
        let source = value(block, "source").unwrap_or_default();
        ["virtual = ", "editable = "].iter().any(|kind| source.contains(kind))
    };
    let blocks = lock.split("[[package]]\n").skip(1).filter(|block| !of_project(block));
    collected(blocks.filter_map(|block| {
        Some((value(block, "name")?, value(block, "version").unwrap_or_default()))
    }))
}

/// Several versions of a package, for different machines, become one text.
fn collected(entries: impl Iterator<Item = (String, String)>) -> Versions {
    let mut versions = Versions::new();
    for (name, version) in entries {
        versions
            .entry(name)
            .and_modify(|known| *known = format!("{known}, {version}"))
            .or_insert(version);
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin<'a>(
        lines: &'a BTreeSet<String>,
        wheels: &'a BTreeMap<PathBuf, PathBuf>,
    ) -> Origin<'a> {
        Origin { requirements: Path::new("requirements.txt"), lines, wheels, python: "3.11.2" }
    }

    #[test]
    fn a_lock_file_says_what_has_changed() {
        let lines = |all: &[&str]| all.iter().map(|line| (*line).to_owned()).collect();
        let (before, wheels) = (lines(&["numpy", "pandas>=2"]), BTreeMap::new());
        let lock = origin(&before, &wheels).text("numpy==2.0 \\\n    --hash=sha256:00\n");
        assert_eq!(packages(&lock), "numpy==2.0 \\\n    --hash=sha256:00\n");
        let why = |origin: Origin<'_>| origin.mismatch(&lock).unwrap().unwrap_or_default();
        assert_eq!(why(origin(&before, &wheels)), "");
        assert_eq!(
            why(origin(&lines(&["numpy"]), &wheels)),
            "it was made with `pandas>=2`, which is gone"
        );
        let more = lines(&["numpy", "pandas>=2", "scipy"]);
        assert_eq!(why(origin(&more, &wheels)), "it was made without `scipy`");
        let python = Origin { python: "3.12.1", ..origin(&before, &wheels) };
        assert_eq!(why(python), "it is for Python 3.11, and the build uses 3.12.1");
    }

    #[test]
    fn versions_are_read_from_both_formats() {
        let lock = "a==1.0 \\\n    --hash=sha256:0\n    # via b\nb==2 ; python_version < '3.9'\n\
                    ./wheels/Demo_Package-1.5-py3-none-any.whl \\\n    --hash=sha256:1\n";
        let seen = versions(lock).unwrap();
        let expected = [("a", "1.0"), ("b", "2"), ("demo-package", "1.5")];
        assert!(seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(expected), "{seen:?}");
        let lock = "version = 1\n\n[[package]]\nname = \"p\"\nversion = \"1\"\nsource = { virtual = \".\" }\n\n\
                    [[package]]\nname = \"six\"\nversion = \"1.17\"\nsource = { registry = \"x\" }\n";
        assert_eq!(
            versions_of_uv_lock(lock),
            Versions::from([("six".to_owned(), "1.17".to_owned())])
        );
    }
}
