// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Comparing packages in the cache with their manifests.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::in_use::InUse;
use super::packages::{Blob, BuildCache, Package, blobs, build_caches};
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

/// Reads every package of a cache directory and compares it with its manifest. Returns how
/// many there are, and the damaged ones; with `repair`, these are removed.
///
/// # Errors
///
/// With `repair`: a build uses the cache, or something cannot be removed.
pub fn verify(cache: &Path, repair: bool) -> Result<(usize, Vec<Damage>)> {
    let _alone = if repair { Some(InUse::alone(cache)?) } else { None };
    let mut count = 0;
    let mut damaged = Vec::new();
    for packages in build_caches(cache) {
        let before = damaged.len();
        for package in packages.packages() {
            count += 1;
            let Some((problem, blob)) = problem(&packages, &package) else {
                continue;
            };
            if repair {
                disk::remove(&package.manifest)?;
                blob.map_or(Ok(()), |path| disk::remove(&path))?;
            }
            let Package { name, version, hash, manifest } = package;
            let mount_point = packages.mount_point.clone();
            damaged.push(Damage { name, version, hash, mount_point, problem, path: manifest });
        }
        if repair && damaged.len() > before {
            packages.sweep(&mut Vec::new());
        }
    }
    Ok((count, damaged))
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

fn of_blob(blob: &Blob, path: &Path) -> Option<String> {
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
