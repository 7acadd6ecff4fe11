// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which packages in the store are finished, and from what each was built.
//!
//! EasyBuild takes a package for done if its module file is there: it neither compares easyconfigs, nor knows
//! whether it was killed while it wrote the last files. So what is not finished, or was built from something
//! else, is removed from the store before EasyBuild looks at it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::install::{MODULES, SOFTWARE};
use super::order::Planned;
use crate::fingerprint::{self, Inputs};
use crate::{Result, disk};

const RECORD: &str = "installed.json";
/// The most that is read of the record, in bytes.
const MOST: u64 = 16 << 20;
/// A directory of EasyBuild for its locks, which are ignored.
const LOCKS: &str = "software/.locks";

/// What is known about the packages in the store.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The modules of the packages that are finished, and their keys.
    finished: BTreeMap<String, String>,
    /// The paths in the store that packages have or may have, finished or not.
    expected: BTreeSet<PathBuf>,
}

/// The packages in the store, during a step.
#[derive(Debug)]
pub(super) struct Installed {
    path: PathBuf,
    record: Record,
    /// The keys of all packages that are planned.
    keys: BTreeMap<String, String>,
}

/// Removes the record: no package counts as finished.
pub(super) fn forget(work: &Path) -> Result<()> {
    disk::remove(&work.join(RECORD))
}

impl Installed {
    /// Removes from a store what is not as it is planned. `common` is what decides about all packages.
    pub(super) fn keep_unchanged(
        work: &Path,
        store: &Path,
        planned: &[Planned],
        common: &Inputs,
    ) -> Result<Self> {
        let path = work.join(RECORD);
        let before: Record = disk::read_json(&path, MOST).unwrap_or_default();
        let keys = keys(planned, common);
        let is_kept = |one: &&Planned| {
            let key = before.finished.get(&one.module);
            key.is_some() && key == keys.get(&one.module) && is_there(one, store)
        };
        let kept: Vec<&Planned> = planned.iter().filter(is_kept).collect();
        let is_same = kept.len() == planned.len() && before.finished.len() == planned.len();
        let finished = kept.iter().filter_map(|one| keys.get_key_value(&one.module));
        let finished = finished.map(|(module, key)| (module.clone(), key.clone())).collect();
        let expected = planned.iter().flat_map(paths_of).chain(before.expected).collect();
        let mut installed = Self { path, record: Record { finished, expected }, keys };
        disk::make_directory(store)?;
        disk::remove(&store.join(LOCKS))?;
        let others = others(store, Path::new(""), &installed.record.expected)?;
        if !others.is_empty() && !is_same {
            // It is not known which packages made these files.
            installed.record.finished.clear();
            installed.write()?;
            disk::make_empty(store)?;
        } else {
            // Before anything is removed: a package of which half is gone must not look finished.
            installed.write()?;
            let kept = kept.into_iter().flat_map(paths_of).chain(others).collect();
            prune(store, Path::new(""), &kept)?;
        }
        installed.record.expected = planned.iter().flat_map(paths_of).collect();
        installed.write()?;
        Ok(installed)
    }

    /// Notes that EasyBuild has finished a package. If that fails, the package is built again after an
    /// interruption.
    pub(super) fn finish(&mut self, module: &str) {
        if let Some((module, key)) = self.keys.get_key_value(module) {
            self.record.finished.insert(module.clone(), key.clone());
            let _ = self.write();
        }
    }

    /// Notes that all packages are finished.
    pub(super) fn finish_all(&mut self) -> Result<()> {
        self.record.finished = self.keys.clone();
        self.write()
    }

    fn write(&self) -> Result<()> {
        disk::write_json(&self.path, &self.record)
    }
}

/// Computes the key of each package: from its easyconfig, from the keys of what it needs, and from what decides
/// about all packages. Packages come after those that they need.
fn keys(planned: &[Planned], common: &Inputs) -> BTreeMap<String, String> {
    let common = fingerprint::digest_of(fingerprint::texts_of(common));
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for one in planned {
        let mut texts = vec![common.as_str(), &one.module, &one.easyconfig, &one.digest];
        for need in &one.needs {
            texts.push(need);
            texts.push(keys.get(need).map_or("", String::as_str));
        }
        let key = fingerprint::digest_of(texts).to_string();
        keys.insert(one.module.clone(), key);
    }
    keys
}

/// The paths that EasyBuild makes for a package, below the store.
fn paths_of(one: &Planned) -> Vec<PathBuf> {
    let software = Path::new(SOFTWARE).join(&one.software);
    let module = Path::new(MODULES).join(&one.module);
    let beside = Path::new(MODULES).parent().unwrap_or(Path::new(""));
    let links = one.links.iter().map(|link| beside.join(link).join(&one.module));
    [software, module].into_iter().chain(links).collect()
}

fn is_there(one: &Planned, store: &Path) -> bool {
    store.join(SOFTWARE).join(&one.software).is_dir()
        && store.join(MODULES).join(&one.module).is_file()
}

/// Lists what is in a directory of the store and belongs to none of the packages.
fn others(store: &Path, below: &Path, expected: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in disk::entries("list", &store.join(below))? {
        let path = below.join(entry.file_name());
        if expected.contains(&path) {
            continue;
        }
        if is_directory(&store.join(&path)) && leads_to(&path, expected) {
            found.extend(others(store, &path, expected)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Removes all that is in a directory of the store, except some paths.
fn prune(store: &Path, below: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in disk::entries("list", &store.join(below))? {
        let path = below.join(entry.file_name());
        if kept.contains(&path) {
            continue;
        }
        if is_directory(&store.join(&path)) && leads_to(&path, kept) {
            prune(store, &path, kept)?;
        } else {
            disk::remove(&store.join(&path))?;
        }
    }
    Ok(())
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Whether one of the paths is below a directory.
fn leads_to(directory: &Path, paths: &BTreeSet<PathBuf>) -> bool {
    // They are sorted by components: those below a directory follow it.
    let from = directory.to_owned();
    paths.range(from..).next().is_some_and(|path| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn planned(name: &str, digest: &str, needs: &[&str]) -> Planned {
        Planned {
            easyconfig: format!("{name}-1.0.eb"),
            module: format!("{name}/1.0"),
            software: format!("{name}/1.0"),
            links: vec!["tools".to_owned()],
            digest: digest.to_owned(),
            needs: needs.iter().map(|need| format!("{need}/1.0")).collect(),
        }
    }

    /// Makes what EasyBuild makes for packages.
    fn install(store: &Path, packages: &[Planned]) {
        for one in packages {
            let [software, module, link] = paths_of(one).try_into().unwrap();
            fs::create_dir_all(store.join(&software)).unwrap();
            fs::write(store.join(software).join("file"), &one.digest).unwrap();
            for file in [module, link] {
                fs::create_dir_all(store.join(&file).parent().unwrap()).unwrap();
                fs::write(store.join(file), "").unwrap();
            }
        }
    }

    fn left(store: &Path) -> Vec<String> {
        let names = disk::entries("list", &store.join(SOFTWARE)).into_iter().flatten();
        let mut names: Vec<_> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Two packages, one that needs the first, and one that needs nothing.
    fn three(digest_of_base: &str) -> Vec<Planned> {
        vec![
            planned("base", digest_of_base, &[]),
            planned("hello", "2", &["base"]),
            planned("other", "3", &[]),
        ]
    }

    /// A store in which the three are finished.
    fn finished(root: &Path, common: &Inputs) -> PathBuf {
        let store = root.join("store");
        let packages = three("1");
        let mut installed = Installed::keep_unchanged(root, &store, &packages, common).unwrap();
        install(&store, &packages);
        installed.finish_all().unwrap();
        store
    }

    #[test]
    fn a_change_removes_a_package_and_those_that_need_it() {
        let root = tempfile::tempdir().unwrap();
        let common = Inputs::new();
        let store = finished(root.path(), &common);
        Installed::keep_unchanged(root.path(), &store, &three("new"), &common).unwrap();
        assert_eq!(left(&store), ["other"]);
        for gone in ["modules/all/base", "modules/tools/hello/1.0"] {
            assert!(!store.join(gone).exists(), "{gone}");
        }
        assert!(store.join("modules/tools/other/1.0").exists());
    }

    #[test]
    fn what_decides_about_all_packages_removes_all() {
        let root = tempfile::tempdir().unwrap();
        let store = finished(root.path(), &Inputs::new());
        let common = Inputs::from([("gcc".to_owned(), "13".to_owned())]);
        Installed::keep_unchanged(root.path(), &store, &three("1"), &common).unwrap();
        assert_eq!(disk::entries("list", &store).unwrap().len(), 0);
    }

    #[test]
    fn a_package_that_was_not_finished_is_removed_though_its_module_is_there() {
        let root = tempfile::tempdir().unwrap();
        let (common, store, packages) = (Inputs::new(), root.path().join("store"), three("1"));
        let mut installed =
            Installed::keep_unchanged(root.path(), &store, &packages, &common).unwrap();
        install(&store, &packages);
        installed.finish("base/1.0");
        Installed::keep_unchanged(root.path(), &store, &packages, &common).unwrap();
        assert_eq!(left(&store), ["base"]);
    }

    #[test]
    fn a_package_that_is_not_planned_any_more_is_removed_even_if_it_was_not_finished() {
        let root = tempfile::tempdir().unwrap();
        let (common, store) = (Inputs::new(), root.path().join("store"));
        let both = [planned("a", "1", &[]), planned("b", "1", &[])];
        let mut installed = Installed::keep_unchanged(root.path(), &store, &both, &common).unwrap();
        install(&store, &both);
        installed.finish("a/1.0");
        Installed::keep_unchanged(root.path(), &store, &both[..1], &common).unwrap();
        assert_eq!(left(&store), ["a"]);
    }

    #[test]
    fn files_of_no_package_stay_if_nothing_changes_and_remove_all_otherwise() {
        let root = tempfile::tempdir().unwrap();
        let common = Inputs::new();
        let store = finished(root.path(), &common);
        let file = store.join("modules/all/base/.modulerc");
        fs::write(&file, "").unwrap();
        Installed::keep_unchanged(root.path(), &store, &three("1"), &common).unwrap();
        assert!(file.exists());
        assert_eq!(left(&store), ["base", "hello", "other"]);
        Installed::keep_unchanged(root.path(), &store, &three("new"), &common).unwrap();
        assert_eq!(disk::entries("list", &store).unwrap().len(), 0);
    }
}
