// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Comparing packages in the cache with their manifests, and checking their signatures.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::in_use::InUse;
use super::packages::{Blob, BuildCache, LARGEST, Package, blobs, build_caches};
use super::signatures::{self, PackageKeys, read_plain};
use crate::{Result, disk, fingerprint};

/// A package in the cache that is not what its manifest says.
#[derive(Clone, Debug, Serialize)]
pub struct Damage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its hash.
    pub hash: String,
    /// The mount point that it was built for, if that is known.
    pub mount_point: Option<PathBuf>,
    /// What is wrong with it.
    pub problem: String,
    /// Its manifest.
    pub path: PathBuf,
}

/// A package without a valid signature.
#[derive(Clone, Debug, Serialize)]
pub struct Untrusted {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its hash.
    pub hash: String,
    /// Why it is not trusted.
    pub reason: String,
}

/// What was found out about the packages of a cache.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verified {
    /// How many packages there are.
    pub packages: usize,
    /// Those that are damaged.
    pub damaged: Vec<Damage>,
    /// Those without a valid signature; empty if signatures were not checked.
    pub untrusted: Vec<Untrusted>,
}

/// Reads every package of a cache directory and compares it with its manifest. With `repair`, damaged
/// packages are removed. With `keys`, signatures are checked.
///
/// # Errors
///
/// With `repair`: a build uses the cache, or something cannot be removed.
pub fn verify(cache: &Path, keys: Option<&dyn PackageKeys>, repair: bool) -> Result<Verified> {
    let _alone = if repair { Some(InUse::alone(cache)?) } else { None };
    let mut verified = Verified::default();
    for packages in build_caches(cache) {
        let before = verified.damaged.len();
        for package in packages.packages() {
            verified.packages += 1;
            if let Some(reason) = keys.and_then(|keys| distrust(&packages, &package, keys)) {
                let Package { name, version, hash, .. } = package.clone();
                verified.untrusted.push(Untrusted { name, version, hash, reason });
            }
            let Some((problem, blob)) = problem(&packages, &package) else {
                continue;
            };
            if repair {
                disk::remove(&package.manifest)?;
                blob.map_or(Ok(()), |path| disk::remove(&path))?;
            }
            let Package { name, version, hash, manifest } = package;
            let mount_point = packages.mount_point.clone();
            let damage = Damage { name, version, hash, mount_point, problem, path: manifest };
            verified.damaged.push(damage);
        }
        if repair && verified.damaged.len() > before {
            packages.sweep(&mut Vec::new());
        }
    }
    Ok(verified)
}

/// Returns why a package is not trusted, if so.
fn distrust(cache: &BuildCache, package: &Package, keys: &dyn PackageKeys) -> Option<String> {
    match read_plain(&package.manifest, LARGEST) {
        Ok(Some(manifest)) => {
            let (name, id) = (package.name.as_str(), package.id());
            signatures::check(&cache.path, (name, &id), &manifest, keys).err()
        }
        Ok(None) => None,
        Err(error) => Some(format!("its manifest cannot be read: {error}")),
    }
}

/// Returns what is wrong with a package, and the file that is damaged.
fn problem(cache: &BuildCache, package: &Package) -> Option<(String, Option<PathBuf>)> {
    let Some(blobs) = blobs(&package.manifest) else {
        return Some(("the manifest cannot be read".to_owned(), None));
    };
    blobs.iter().find_map(|blob| {
        let path = cache.blob(blob);
        of_blob(blob, &path).map(|problem| (problem, Some(path)))
    })
}

/// Returns what is wrong with a file that a manifest names.
pub(super) fn of_blob(blob: &Blob, path: &Path) -> Option<String> {
    let size = match path.metadata() {
        Ok(found) => found.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some("its files are missing".to_owned());
        }
        Err(error) => return Some(format!("its files cannot be read: {error}")),
    };
    if size != blob.size {
        return Some(format!("it has {size} bytes instead of {}", blob.size));
    }
    if blob.algorithm != "sha256" {
        return None;
    }
    match fingerprint::of_file(path) {
        Ok(digest) if digest.as_str() == blob.checksum => None,
        Ok(_) => Some("its checksum does not match".to_owned()),
        Err(error) => Some(format!("its files cannot be read: {error}")),
    }
}
