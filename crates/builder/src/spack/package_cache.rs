// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages that builds leave in the cache, one directory for each mount point.
//!
//! ```text
//! <cache>/spack/packages/+user-environment/   packages built for /user-environment
//! <cache>/spack/packages/{v3,blobs}/          of earlier versions, for any mount point
//! ```
//!
//! Packages of the shared cache come before these: `shared_packages` says which.
//!
//! Spack can move a package to a path that is not longer than the one it was built for.
//! So a build reads its own directory first, then those of paths that are at least as
//! long, and last what earlier versions left. It writes into its own directory only.

use std::path::{Path, PathBuf};

use cabane_spack::{cache_name, mount_point_of_cache};

use super::{SpackEngine, inputs, shared_packages};
use crate::cache::PACKAGES;
use crate::layout::Inside;
use crate::{Result, disk, fingerprint};

/// The manifests of packages, below the directory of a mount point.
pub(super) const MANIFESTS: &str = "v3/manifests/spec";

/// Returns the directory for packages of a mount point. `cache` is the cache directory.
pub(super) fn own(cache: &Path, mount_point: &Path) -> PathBuf {
    let digest = || fingerprint::of_bytes(mount_point.as_os_str().as_encoded_bytes()).to_string();
    let name = cache_name(mount_point).unwrap_or_else(digest);
    cache.join(PACKAGES).join(name)
}

/// Returns where a build for a mount point puts the manifests of packages.
pub(super) fn own_manifests(cache: &Path, mount_point: &Path) -> PathBuf {
    own(cache, mount_point).join(MANIFESTS)
}

/// Returns the directories of other mount points whose packages can be moved to this one,
/// the shortest path first.
fn others(cache: &Path, mount_point: &Path) -> Vec<PathBuf> {
    let own = own(cache, mount_point);
    let mut others = usable(&cache.join(PACKAGES), mount_point);
    others.retain(|path| *path != own);
    others
}

/// The length of a path in bytes: Spack can move packages to a path that is not longer.
pub(super) fn length(path: &Path) -> usize {
    path.as_os_str().len()
}

/// Returns the directories below `packages` whose packages can be moved to a mount point:
/// its own first, then the shortest path.
pub(super) fn usable(packages: &Path, mount_point: &Path) -> Vec<PathBuf> {
    let directories = packages.read_dir().into_iter().flatten().flatten();
    let mut found: Vec<_> = directories
        .filter_map(|entry| {
            let other = mount_point_of_cache(entry.file_name().to_str()?)?;
            let is_long_enough = length(&other) >= length(mount_point);
            let path = entry.path();
            let is_other = other != mount_point;
            (is_long_enough && is_filled(&path)).then_some((is_other, length(&other), path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, _, path)| path).collect()
}

/// Returns what earlier versions left, if it is there.
fn older(cache: &Path) -> Option<PathBuf> {
    let directory = cache.join(PACKAGES);
    is_filled(&directory).then_some(directory)
}

fn is_filled(directory: &Path) -> bool {
    directory.join(MANIFESTS).is_dir()
}

/// Returns where manifests of packages are that a build can use, in the order in which
/// Spack looks there. `shared` are those of the shared cache.
pub(super) fn manifests(cache: &Path, shared: Vec<PathBuf>, mount_point: &Path) -> Vec<PathBuf> {
    let all =
        [own(cache, mount_point)].into_iter().chain(others(cache, mount_point)).chain(older(cache));
    shared.into_iter().chain(all.map(|directory| directory.join(MANIFESTS))).collect()
}

/// Tells Spack about the packages that are in the cache now.
///
/// The list is no input of any step: a build for another mount point must not make this
/// one start again.
pub(super) fn write_mirrors(engine: &SpackEngine) -> Result<()> {
    let cache = &engine.request.cache_dir;
    let inside = |path: PathBuf| {
        let relative = path.strip_prefix(cache).map(Path::to_owned).unwrap_or(path);
        Path::new(Inside::CACHE).join(relative)
    };
    let mut places = inputs::places(&engine.recipe, &engine.packages, &engine.commits());
    if let Some(packages) = &mut places.binary_cache {
        packages.shared = shared_packages::inside(engine);
        packages.others = others(cache, &engine.store).into_iter().map(inside).collect();
        packages.older = older(cache).map(inside);
    }
    let text = cabane_spack::mirrors_file(&engine.recipe, &engine.system.mirrors, &places);
    disk::put(&inputs::directory(&engine.layout).join("config/mirrors.yaml"), text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A cache with packages of these mount points.
    fn cache(mount_points: &[&str]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        for mount_point in mount_points {
            let own = own(cache.path(), Path::new(mount_point));
            fs::create_dir_all(own.join(MANIFESTS)).unwrap();
        }
        cache
    }

    #[test]
    fn only_packages_of_longer_paths_are_used() {
        let cache = cache(&["/user-environment", "/user-tools", "/opt", "/user-things"]);
        let names = |mount_point: &str| -> Vec<_> {
            let found = others(cache.path(), Path::new(mount_point)).into_iter();
            found.map(|path| path.file_name().unwrap().to_owned()).collect()
        };
        assert_eq!(names("/user-tools"), ["+user-things", "+user-environment"]);
        assert_eq!(names("/user-books"), ["+user-tools", "+user-things", "+user-environment"]);
        assert_eq!(names("/user-environment"), [""; 0]);
    }

    #[test]
    fn packages_of_others_are_used_before_ones_own() {
        let cache = cache(&["/user-tools"]);
        let shared = vec![PathBuf::from("/shared")];
        let all = manifests(cache.path(), shared, Path::new("/user-tools"));
        let own = own_manifests(cache.path(), Path::new("/user-tools"));
        assert_eq!(all, [PathBuf::from("/shared"), own]);
    }

    #[test]
    fn what_earlier_versions_left_is_read_last() {
        let cache = cache(&["/user-environment"]);
        assert_eq!(manifests(cache.path(), Vec::new(), Path::new("/x")).len(), 2);
        let flat = cache.path().join(PACKAGES).join(MANIFESTS);
        fs::create_dir_all(&flat).unwrap();
        let all = manifests(cache.path(), Vec::new(), Path::new("/x"));
        assert_eq!((all.len(), all.last()), (3, Some(&flat)));
    }

    #[test]
    fn a_path_that_is_too_long_for_a_name_has_packages_of_its_own() {
        let long = format!("/{}", "a".repeat(400));
        let name = own(Path::new("/c"), Path::new(&long)).file_name().unwrap().to_owned();
        assert_eq!(mount_point_of_cache(name.to_str().unwrap()), None);
    }
}
