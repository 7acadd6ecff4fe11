// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which parts of an image a view needs.
//!
//! A *part* is the directory of a package or a view, or something else at the top of the image. A part needs
//! the parts of the packages that its package depends on. What links and scripts of a part refer to is
//! added while files are read. All paths are relative to the root of the image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use cabane_view::PackageList;

/// The parts of an image, and what each needs.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    needs: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Name and version of the packages in a part.
    packages: BTreeMap<PathBuf, Vec<(String, String)>>,
}

impl Parts {
    /// Takes the packages of the image, its views, and the names at its top. `None` if the packages do not
    /// show what belongs together.
    pub(crate) fn new(
        list: &PackageList,
        mount: &Path,
        views: &[PathBuf],
        top: &[PathBuf],
    ) -> Option<Self> {
        let inside = |prefix: &Option<String>| relative(Path::new(prefix.as_deref()?), mount);
        let inner = list.packages.iter().filter(|one| !one.external);
        let placed: Vec<_> = inner.filter_map(|one| Some((inside(&one.prefix)?, one))).collect();
        // A view that is the whole image, or an image without a store, has no parts.
        let is_whole = |path: &PathBuf| path.as_os_str().is_empty();
        if placed.is_empty() || views.is_empty() || views.iter().any(is_whole) {
            return None;
        }
        let by_hash: BTreeMap<&str, &PathBuf> =
            placed.iter().filter_map(|(place, one)| Some((one.hash.as_deref()?, place))).collect();
        let mut parts = Self::default();
        for (place, one) in &placed {
            let needed = one.dependencies.iter().filter_map(|hash| by_hash.get(hash.as_str()));
            let needs = parts.needs.entry(place.clone()).or_default();
            needs.extend(needed.map(|place| (*place).clone()));
            let packages = parts.packages.entry(place.clone()).or_default();
            packages.push((one.name.clone(), one.version.clone()));
        }
        for view in views {
            parts.needs.entry(view.clone()).or_default();
        }
        for name in top {
            let has_part = parts.needs.keys().any(|part| part.starts_with(name));
            if !has_part {
                parts.needs.insert(name.clone(), Vec::new());
            }
        }
        Some(parts)
    }

    /// Returns the part of a path; the path itself if it is in none.
    pub(crate) fn of(&self, path: &Path) -> PathBuf {
        let mut above = path.ancestors();
        let part = above.find(|one| self.needs.contains_key(*one));
        part.unwrap_or(path).to_owned()
    }

    /// Returns the parts that a part needs.
    pub(crate) fn needed_by(&self, part: &Path) -> &[PathBuf] {
        self.needs.get(part).map_or(&[], Vec::as_slice)
    }

    /// Returns name and version of the packages that are in some directories.
    pub(crate) fn packages_in(&self, directories: &BTreeSet<PathBuf>) -> Vec<(String, String)> {
        let is_in = |part: &Path| part.ancestors().any(|one| directories.contains(one));
        let packages =
            self.packages.iter().filter(|(part, _)| is_in(part)).flat_map(|(_, all)| all);
        let sorted: BTreeSet<_> = packages.cloned().collect();
        sorted.into_iter().collect()
    }
}

/// Returns an absolute path relative to the mount point; `None` outside of it.
pub(crate) fn relative(path: &Path, mount: &Path) -> Option<PathBuf> {
    Some(normal(path).strip_prefix(mount).ok()?.to_owned())
}

/// Leaves out `.` and `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use cabane_view::PackageRecord;

    use super::*;

    fn package(name: &str, needs: &[&str]) -> PackageRecord {
        PackageRecord {
            name: name.to_owned(),
            hash: Some(name.to_owned()),
            prefix: Some(format!("/env/store/{name}")),
            dependencies: needs.iter().map(ToString::to_string).collect(),
            ..PackageRecord::default()
        }
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn packages_views_and_the_rest_at_the_top_are_parts() {
        let list = PackageList::new(vec![package("a", &["b", "gone"]), package("b", &[])]);
        let top = paths(&["store", "views", "bin"]);
        let parts = Parts::new(&list, Path::new("/env"), &paths(&["views/default"]), &top).unwrap();
        let seen = ["store/a/lib/x", "views/default/bin", "bin/tool", "store/other"]
            .map(|path| parts.of(Path::new(path)));
        let expected = ["store/a", "views/default", "bin", "store/other"].map(PathBuf::from);
        assert_eq!(seen, expected);
        assert_eq!(parts.needed_by(Path::new("store/a")), paths(&["store/b"]));
    }

    #[test]
    fn without_a_store_there_are_no_parts() {
        let python = PackageRecord { prefix: None, ..package("numpy", &[]) };
        let none = PackageList::new(vec![python]);
        let some = PackageList::new(vec![package("a", &[])]);
        let mount = Path::new("/env");
        assert!(Parts::new(&none, mount, &paths(&["env/default"]), &[]).is_none());
        assert!(Parts::new(&some, mount, &paths(&[""]), &[]).is_none());
        assert!(Parts::new(&some, Path::new("/other"), &paths(&["v"]), &[]).is_none());
    }

    #[test]
    fn dots_lead_nowhere_else() {
        let mount = Path::new("/env");
        assert_eq!(relative(Path::new("/env/a/../../etc/passwd"), mount), None);
        assert_eq!(relative(Path::new("/env/a/./../b"), mount), Some("b".into()));
        assert_eq!(relative(Path::new("/environment"), mount), None);
    }
}
