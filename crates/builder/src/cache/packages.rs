// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Build caches as Spack 1.0 and later arranges them, version 3.
//!
//! ```text
//! v3/layout.json
//! v3/manifests/spec/NAME/NAME-VERSION-HASH.spec.manifest.json
//! v3/manifests/{index,key}/…
//! blobs/sha256/AB/ABCDEF…     the package and its description; manifests name them
//! signatures/NAME/NAME-VERSION-HASH.json    of Cabane; Spack does not know them
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_spack::mount_point_of_cache;
use serde::{Deserialize, Serialize};

use super::signatures;
use crate::disk;

/// The packages of all mount points, below the cache directory.
pub(crate) const DIRECTORY: &str = "spack/packages";
pub(super) const MANIFESTS: &str = "v3/manifests";
const ENDING: &str = ".spec.manifest.json";
/// No manifest of a package is larger.
pub(crate) const LARGEST: u64 = 1 << 20;

/// A directory that Spack reads packages from.
#[derive(Clone, Debug)]
pub(super) struct BuildCache {
    pub(super) path: PathBuf,
    /// Where its packages were built for; unknown for those of earlier versions.
    pub(super) mount_point: Option<PathBuf>,
}

/// What a manifest says about one blob.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Blob {
    #[serde(rename = "contentLength")]
    pub(super) size: u64,
    pub(super) checksum: String,
    #[serde(rename = "checksumAlgorithm")]
    pub(super) algorithm: String,
}

/// Something in the cache that should have been removed.
#[derive(Clone, Debug, Serialize)]
pub struct NotRemoved {
    /// The file or directory.
    pub path: PathBuf,
    /// Why it is still there.
    pub reason: String,
}

#[derive(Deserialize)]
struct Manifest {
    data: Vec<Blob>,
}

/// A package in a build cache.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) hash: String,
    pub(super) manifest: PathBuf,
}

impl Package {
    /// Returns `NAME-VERSION-HASH`.
    pub(super) fn id(&self) -> String {
        format!("{}-{}-{}", self.name, self.version, self.hash)
    }
}

/// Returns the build caches of a cache directory, sorted by path. The directory may also be one to which
/// packages were pushed.
pub(super) fn build_caches(cache: &Path) -> Vec<BuildCache> {
    let root = cache.join(DIRECTORY);
    let entries = fs::read_dir(&root).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut all: Vec<_> = names
        .filter(|name| !matches!(name.as_str(), "v3" | "blobs" | "build_cache"))
        .map(|name| BuildCache { path: root.join(&name), mount_point: mount_point_of_cache(&name) })
        .collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all.push(BuildCache { path: root, mount_point: None });
    all.push(BuildCache { path: cache.to_owned(), mount_point: None });
    all.retain(|one| one.path.join(MANIFESTS).is_dir());
    all
}

impl BuildCache {
    /// Returns the packages, sorted by name, version, and hash.
    pub(super) fn packages(&self) -> Vec<Package> {
        let names = children(&self.path.join(MANIFESTS).join("spec"));
        let mut all: Vec<Package> = names
            .iter()
            .flat_map(|directory| {
                children(directory).into_iter().map(move |path| (directory, path))
            })
            .filter_map(|(directory, path)| package(directory, path))
            .collect();
        all.sort_by(|one, other| {
            let key = |package: &Package| {
                (package.name.clone(), package.version.clone(), package.hash.clone())
            };
            key(one).cmp(&key(other))
        });
        all
    }

    pub(super) fn blob(&self, blob: &Blob) -> PathBuf {
        let start = blob.checksum.get(..2).unwrap_or_default();
        self.path.join("blobs").join(&blob.algorithm).join(start).join(&blob.checksum)
    }

    /// Removes blobs that no manifest names, and signatures of packages that are gone; returns how many bytes that freed, and adds what it
    /// cannot remove to `failed`.
    pub(super) fn sweep(&self, failed: &mut Vec<NotRemoved>) -> u64 {
        signatures::sweep(self);
        let mut manifests = Vec::new();
        files_below(&self.path.join(MANIFESTS), &mut manifests);
        let mut kept = BTreeSet::new();
        for path in manifests {
            let Some(named) = blobs(&path) else {
                // What it names is not known.
                let reason = "it is not a manifest of a build cache, so all files of packages stay";
                failed.push(NotRemoved { path, reason: reason.to_owned() });
                return 0;
            };
            kept.extend(named.iter().map(|blob| self.blob(blob)));
        }
        let mut all = Vec::new();
        files_below(&self.path.join("blobs"), &mut all);
        let mut freed = 0;
        for path in all.iter().filter(|path| !kept.contains(*path)) {
            let size = path.symlink_metadata().map_or(0, |found| found.len());
            match fs::remove_file(path) {
                Ok(()) => freed += size,
                Err(error) => {
                    failed.push(NotRemoved { path: path.clone(), reason: error.to_string() });
                }
            }
        }
        freed
    }
}

/// Reads the name of a manifest in the directory of its package.
fn package(directory: &Path, manifest: PathBuf) -> Option<Package> {
    let name = directory.file_name()?.to_str()?;
    let file = manifest.file_name()?.to_str()?.strip_suffix(ENDING)?;
    let (version, hash) = file.strip_prefix(name)?.strip_prefix('-')?.rsplit_once('-')?;
    Some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        hash: hash.to_owned(),
        manifest,
    })
}

/// Reads which blobs a manifest names. One that is signed has its text between lines of
/// the signature.
pub(super) fn blobs(manifest: &Path) -> Option<Vec<Blob>> {
    blobs_in(&disk::read_start(manifest, LARGEST).ok()?)
}

/// As [`blobs`], for the content of a manifest.
pub(super) fn blobs_in(manifest: &[u8]) -> Option<Vec<Blob>> {
    let text = std::str::from_utf8(manifest).ok()?;
    let text = text.get(text.find('{')?..=text.rfind('}')?)?;
    let manifest: Manifest = serde_json::from_str(text).ok()?;
    // What is below leads nowhere else.
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric());
    let are_plain =
        manifest.data.iter().all(|one| is_plain(&one.checksum) && is_plain(&one.algorithm));
    are_plain.then_some(manifest.data)
}

/// Returns what is in a directory, sorted; nothing if it cannot be read.
pub(super) fn children(directory: &Path) -> Vec<PathBuf> {
    let is_real = directory.symlink_metadata().is_ok_and(|found| found.is_dir());
    let entries =
        is_real.then(|| fs::read_dir(directory)).into_iter().flatten().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Collects the files below a directory, without following links.
pub(super) fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in children(directory) {
        if path.is_dir() && !path.is_symlink() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_manifest_says_version_and_hash() {
        let of = |directory: &str, file: &str| {
            let found = package(Path::new(directory), Path::new(directory).join(file))?;
            Some(format!("{} {} {}", found.name, found.version, found.hash))
        };
        let file = "gcc-runtime-12.2.0-abc.spec.manifest.json";
        assert_eq!(of("/c/gcc-runtime", file).as_deref(), Some("gcc-runtime 12.2.0 abc"));
        let file = "x-1.0-rc1-abc.spec.manifest.json";
        assert_eq!(of("/c/x", file).as_deref(), Some("x 1.0-rc1 abc"));
        for file in ["x-1.0-abc.json", "y-1.0-abc.spec.manifest.json", "x.spec.manifest.json"] {
            assert_eq!(of("/c/x", file), None, "{file}");
        }
    }

    #[test]
    fn a_manifest_that_leads_elsewhere_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest");
        let write = |checksum: &str| {
            let text = format!(
                "-----BEGIN PGP SIGNED MESSAGE-----\n{{\"version\": 3, \"data\": [{{\"contentLength\": 1, \
                 \"checksumAlgorithm\": \"sha256\", \"checksum\": \"{checksum}\"}}]}}\n-----BEGIN"
            );
            fs::write(&path, text).unwrap();
            blobs(&path).map(|all| all.len())
        };
        assert_eq!(write("abcd"), Some(1));
        assert_eq!(write("../../x"), None);
        assert_eq!(write(""), None);
    }
}
