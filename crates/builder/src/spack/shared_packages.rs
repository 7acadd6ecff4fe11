// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages of the shared cache that a build may use.
//!
//! ```text
//! <shared>/spack/packages/+…/      the cache directory of an account that builds for others
//! <shared>/{v3,blobs,signatures}/  or a directory to which packages were pushed
//!
//! <work>/spack/shared/NAME/v3/manifests/…   copies of the manifests that this build trusts
//! /cabane/shared/NAME/                      the same in the sandbox, with the blobs of the shared cache
//! ```
//!
//! Spack sees no manifest of the shared cache itself. The build copies those of its lock files that have a
//! valid signature. Without keys, it copies those that only the owner of the cache can write. A manifest contains the
//! checksums of all other files, which Spack compares. So what changes in the shared cache after the check has
//! no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_spack::{Spec, mount_point_of_cache};

use super::package_cache::{MANIFESTS, length, usable};
use super::watch::Watch;
use super::{SpackEngine, inputs, lock};
use crate::cache::{LARGEST_MANIFEST, PACKAGES, check_signature, read_plain};
use crate::layout::{Inside, Layout};
use crate::sandbox::Sandbox;
use crate::{Progress, Result, disk};

/// The name of the place with packages for any mount point.
const ANY: &str = "-pushed";
/// The files of packages, below a build cache.
const BLOBS: &str = "blobs";
/// What Spack expects in a build cache.
const LAYOUT: (&str, &str) = ("v3/layout.json", "{\"signing\": \"gpg\"}");
const OTHERS_WRITE: u32 = 0o022;
/// In such a directory, files can be renamed only by their owners.
const STICKY: u32 = 0o1000;
/// How many packages a warning names.
const MOST_NAMED: usize = 3;

/// A build cache in the shared cache.
#[derive(Debug)]
struct Place {
    name: String,
    path: PathBuf,
    /// The mount point for which its packages were built, if it is known.
    mount_point: Option<PathBuf>,
}

/// A package of the shared cache that is not trusted.
#[derive(Debug)]
struct Refused {
    hash: String,
    id: String,
    reason: String,
}

/// Returns the build caches that a build can use, in the order in which Spack looks there.
fn places(engine: &SpackEngine) -> Vec<Place> {
    let Some(shared) = &engine.request.shared_cache else { return Vec::new() };
    let of_builds = usable(&shared.join(PACKAGES), &engine.store).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some(Place { mount_point: mount_point_of_cache(&name), name, path })
    });
    let pushed = Place { name: ANY.to_owned(), path: shared.clone(), mount_point: None };
    let is_real = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    of_builds
        .chain([pushed])
        .filter(|place| is_real(place.path.join(MANIFESTS)) && is_real(place.path.join(BLOBS)))
        .collect()
}

/// Returns the directory with the manifests that the build trusts.
fn view(layout: &Layout) -> PathBuf {
    inputs::directory(layout).join("shared")
}

/// Returns where these manifests are, in the order in which Spack looks there.
pub(super) fn manifests(engine: &SpackEngine) -> Vec<PathBuf> {
    let view = view(&engine.layout);
    places(engine).into_iter().map(|place| view.join(place.name).join(MANIFESTS)).collect()
}

/// Returns where the packages are in the sandbox.
pub(super) fn inside(engine: &SpackEngine) -> Vec<PathBuf> {
    let places = places(engine).into_iter();
    places.map(|place| Path::new(Inside::SHARED).join(place.name)).collect()
}

/// Shows the packages in a sandbox.
pub(super) fn show(engine: &SpackEngine, sandbox: &mut Sandbox) {
    let view = view(&engine.layout);
    if !view.is_dir() {
        return;
    }
    sandbox.bind(&view, Inside::SHARED, true);
    for place in places(engine) {
        if view.join(&place.name).join(BLOBS).is_dir() {
            let inside = Path::new(Inside::SHARED).join(&place.name).join(BLOBS);
            sandbox.bind(place.path.join(BLOBS), inside, true);
        }
    }
}

/// The packages of the shared cache during an installation.
#[derive(Debug, Default)]
pub(super) struct SharedPackages {
    refused: Vec<Refused>,
    reported: BTreeSet<String>,
}

impl SharedPackages {
    /// Forgets which packages an earlier build trusted.
    pub(super) fn open(engine: &SpackEngine) -> Result<Self> {
        let view = view(&engine.layout);
        disk::remove(&view)?;
        for place in places(engine) {
            let directory = view.join(&place.name);
            for name in [MANIFESTS, BLOBS] {
                disk::make_directory(&directory.join(name))?;
            }
            disk::put(&directory.join(LAYOUT.0), LAYOUT.1)?;
        }
        Ok(Self::default())
    }

    /// Decides which packages of a lock file the build takes from the shared cache.
    pub(super) fn admit(&mut self, engine: &SpackEngine, lock: &Path) -> Result<()> {
        let places = places(engine);
        if places.is_empty() {
            return Ok(());
        }
        for (hash, package) in lock::read(lock)? {
            if !package.is_external() {
                self.admit_one(engine, &places, &hash, &package)?;
            }
        }
        Ok(())
    }

    fn admit_one(
        &mut self,
        engine: &SpackEngine,
        places: &[Place],
        hash: &str,
        package: &Spec,
    ) -> Result<()> {
        let id = format!("{}-{}-{hash}", package.name, package.version);
        let file =
            Path::new(MANIFESTS).join(&package.name).join(format!("{id}.spec.manifest.json"));
        let mut refused = None;
        for place in places {
            let manifest = match read_plain(&place.path.join(&file), LARGEST_MANIFEST) {
                Ok(Some(manifest)) => Ok(manifest),
                Ok(None) => continue,
                Err(error) => Err(format!("its manifest cannot be read: {error}")),
            };
            let judged = manifest.and_then(|manifest| {
                let fits = judge(engine, place, (&package.name, &id), &file, &manifest)?;
                Ok(fits.then_some(manifest))
            });
            match judged {
                Ok(Some(manifest)) => {
                    return disk::put(
                        &view(&engine.layout).join(&place.name).join(&file),
                        manifest,
                    );
                }
                Ok(None) => {}
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        if let Some(reason) = refused.filter(|_| self.reported.insert(hash.to_owned())) {
            self.refused.push(Refused { hash: hash.to_owned(), id: package.id(), reason });
        }
        Ok(())
    }

    /// Reports the packages that are not used, and are in no other cache.
    pub(super) fn report(
        &mut self,
        engine: &SpackEngine,
        watch: &Watch<'_>,
        progress: &mut dyn Progress,
    ) {
        let mut refused = std::mem::take(&mut self.refused);
        refused.retain(|one| !watch.has(&one.hash));
        let Some(shared) = engine.request.shared_cache.as_ref().filter(|_| !refused.is_empty())
        else {
            return;
        };
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for one in &refused {
            by_reason.entry(&one.reason).or_default().push(escape(&one.id).into_owned());
        }
        let reasons = by_reason.into_iter().map(|(reason, ids)| {
            let named = ids[..ids.len().min(MOST_NAMED)].join(", ");
            let more = ids.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{named}{more}: {}", escape(reason))
        });
        let reasons: Vec<String> = reasons.collect();
        progress.warning(&format!(
            "packages of the shared cache {} are not used: {}",
            shown(shared),
            reasons.join("; ")
        ));
    }
}

/// Decides whether a package is trusted. Returns whether it can be moved to the mount point of the build.
///
/// # Errors
///
/// Why it is not trusted.
fn judge(
    engine: &SpackEngine,
    place: &Place,
    (name, id): (&str, &str),
    file: &Path,
    manifest: &[u8],
) -> std::result::Result<bool, String> {
    let Some(keys) = engine.request.package_keys.as_deref() else {
        let shared = engine.request.shared_cache.as_deref().unwrap_or(&place.path);
        return match open_to_others(shared, &place.path.join(file)) {
            Some(path) => Err(format!("others can change {}", shown(&path))),
            None => Ok(true),
        };
    };
    let built_for = check_signature(&place.path, (name, id), manifest, keys)?;
    match (&place.mount_point, built_for) {
        (Some(named), Some(built_for)) if *named != built_for => {
            Err(format!("its signature is for the mount point {}", shown(&built_for)))
        }
        (_, Some(built_for)) => Ok(length(&built_for) >= length(&engine.store)),
        _ => Ok(true),
    }
}

/// Returns the first of a file and all directories above it that others than the owner of `root` can change:
/// they can write there, or it is theirs. Above `root`, a directory may be sticky.
fn open_to_others(root: &Path, file: &Path) -> Option<PathBuf> {
    let owner = fs::metadata(root).map_or(0, |found| found.uid());
    let trusted = [0, owner, rustix::process::geteuid().as_raw()];
    let mut all: Vec<&Path> = file.ancestors().collect();
    all.reverse();
    let is_open = |path: &&Path| {
        let Ok(found) = fs::metadata(path) else { return true };
        let mode = found.permissions().mode();
        let is_sticky = mode & STICKY != 0 && !path.starts_with(root);
        mode & OTHERS_WRITE != 0 && !is_sticky || !trusted.contains(&found.uid())
    };
    all.into_iter().find(is_open).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_on_the_way_that_others_can_write_is_found() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        disk::put(&file, "").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in file.ancestors().take(4) {
            set(path, 0o755);
        }
        assert_eq!(open_to_others(root.path(), &file), None);
        set(&file, 0o666);
        assert_eq!(open_to_others(root.path(), &file), Some(file.clone()));
        set(&root.path().join("a"), 0o775);
        assert_eq!(open_to_others(root.path(), &file), Some(root.path().join("a")));
        // The directory of the cache itself could be exchanged.
        set(&root.path().join("a"), 0o755);
        set(&file, 0o644);
        set(root.path(), 0o777);
        assert_eq!(open_to_others(&root.path().join("a"), &file), Some(root.path().to_owned()));
        set(root.path(), 0o1777);
        assert_eq!(open_to_others(&root.path().join("a"), &file), None);
    }

    #[test]
    fn what_a_stranger_left_is_found_whatever_its_mode_is() {
        if !rustix::process::geteuid().is_root() {
            cabane_testkit::not_run!("needs root");
        }
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&file, Some(61_234), None).unwrap();
        assert_eq!(open_to_others(root.path(), &file), Some(file.clone()));
    }
}
