// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files as a program sees them that lives below another root.
//!
//! A container image that is mounted somewhere has absolute links and search paths that
//! mean its own root, and a stack image belongs to its mount point. So every path is
//! walked here step by step, and no link leads out of the root.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

/// So many links are followed, as the kernel does.
const MOST_LINKS: usize = 40;

/// A root, and what is mounted below it.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    /// Mount points, and the directories that are there.
    mounts: Vec<(PathBuf, PathBuf)>,
}

/// A file or directory that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path below the root, without links.
    pub path: PathBuf,
    /// Where it is reached from here.
    pub outside: PathBuf,
}

impl Tree {
    /// The files of this machine as they are.
    #[must_use]
    pub fn here() -> Self {
        Self::below("/")
    }

    /// The files below a directory, as if it were the root.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), mounts: Vec::new() }
    }

    /// The same with a directory at a mount point, which need not be there otherwise.
    #[must_use]
    pub fn with(mut self, mount_point: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        self.mounts.push((mount_point.into(), directory.into()));
        self
    }

    /// Finds what a path leads to.
    #[must_use]
    pub fn find(&self, path: &Path) -> Option<Place> {
        let mut left: VecDeque<OsString> = names(path).collect();
        let mut seen = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            if name == ".." {
                seen.pop();
                continue;
            }
            let next = seen.join(&name);
            if self.mounts.iter().any(|(point, _)| *point == next) {
                seen = next;
                continue;
            }
            let outside = self.outside(&next);
            let Ok(target) = fs::read_link(&outside) else {
                // Below something that is no directory nothing is found.
                let is_above_mount = self.mounts.iter().any(|(point, _)| point.starts_with(&next));
                if !is_above_mount && fs::symlink_metadata(&outside).is_err() {
                    return None;
                }
                seen = next;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            if target.is_absolute() {
                seen = PathBuf::from("/");
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                left.push_front(name);
            }
        }
        let outside = self.outside(&seen);
        outside.exists().then_some(Place { path: seen, outside })
    }

    /// Opens a file, and nothing that is no plain file.
    #[must_use]
    pub fn open(&self, path: &Path) -> Option<File> {
        File::open(self.plain_file(path)?).ok()
    }

    /// Whether a path leads to a plain file.
    #[must_use]
    pub fn is_file(&self, path: &Path) -> bool {
        self.plain_file(path).is_some()
    }

    fn plain_file(&self, path: &Path) -> Option<PathBuf> {
        let outside = self.find(path)?.outside;
        fs::symlink_metadata(&outside).ok()?.is_file().then_some(outside)
    }

    /// Returns the names in a directory in their order; none if it is none.
    #[must_use]
    pub fn names(&self, directory: &Path) -> Vec<String> {
        let place = self.find(directory);
        let entries = place.and_then(|place| fs::read_dir(&place.outside).ok());
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Where a path without links is reached from here.
    fn outside(&self, path: &Path) -> PathBuf {
        let deepest = self
            .mounts
            .iter()
            .filter(|(point, _)| path.starts_with(point))
            .max_by_key(|(point, _)| point.as_os_str().len());
        let (above, directory) = deepest.map_or_else(
            || (Path::new("/"), self.root.as_path()),
            |(point, directory)| (point.as_path(), directory.as_path()),
        );
        match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => directory.join(rest),
            _ => directory.to_owned(),
        }
    }
}

/// The steps of a path.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_absolute_link_stays_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/file"), "x").unwrap();
        symlink("/etc/file", root.path().join("link")).unwrap();
        let place = Tree::below(root.path()).find(Path::new("/link")).unwrap();
        assert_eq!((place.path, place.outside), ("/etc/file".into(), root.path().join("etc/file")));
    }

    #[test]
    fn a_link_that_climbs_out_ends_at_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("passwd"), "x").unwrap();
        symlink("../../../../../passwd", root.path().join("link")).unwrap();
        let place = Tree::below(root.path()).find(Path::new("/link")).unwrap();
        assert_eq!(place.outside, root.path().join("passwd"));
    }

    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert_eq!(Tree::below(root.path()).find(Path::new("/a")), None);
    }

    #[test]
    fn what_is_mounted_is_found_below_its_mount_point_only() {
        let (root, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(image.path().join("lib")).unwrap();
        fs::write(image.path().join("lib/file"), "x").unwrap();
        symlink("/user-environment/lib/file", root.path().join("link")).unwrap();
        let tree = Tree::below(root.path()).with("/user-environment", image.path());
        let found = tree.find(Path::new("/link")).unwrap();
        assert_eq!(found.outside, image.path().join("lib/file"));
        assert_eq!(tree.find(Path::new("/lib/file")), None);
    }
}
