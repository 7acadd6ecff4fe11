// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting packages of the cache into a build cache that any Spack can use.
//!
//! Files are copied as they are: a blob is named by its checksum. Spack writes the index,
//! with a version of it that a build left in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report};
use serde::Serialize;

use super::in_use::InUse;
use super::packages::{BuildCache, Package, blobs, build_caches, children};
use crate::process::lines;
use crate::{BuildError, Result, disk};

/// What is put where.
#[derive(Clone, Debug)]
pub struct PushCache {
    /// The cache directory.
    pub cache: PathBuf,
    /// The directory of the build cache: a path, or `file://` and a path.
    pub target: String,
    /// Only packages that were built for this mount point.
    pub mount_point: Option<PathBuf>,
    /// Only packages of these names, if there are any.
    pub names: Vec<String>,
    /// The Python that runs Spack.
    pub python: PathBuf,
}

/// What was put into a build cache.
#[derive(Clone, Debug, Serialize)]
pub struct Pushed {
    /// The build cache.
    pub target: PathBuf,
    /// How many packages are new there.
    pub packages: usize,
    /// How many were there already.
    pub present: usize,
    /// How many bytes were copied.
    pub bytes: u64,
}

/// Copies packages into a build cache and writes its index. Of a package that was built
/// for several mount points, the one with the longest path is copied: Spack can move it to
/// the most places.
///
/// # Errors
///
/// The target is no directory; nothing matches; no build left a Spack in the cache; a file
/// cannot be copied; Spack fails.
pub fn push(request: &PushCache) -> Result<Pushed> {
    let target = directory_of(&request.target)?;
    let _in_use = InUse::share(&request.cache, &mut (), &AtomicBool::new(false))?;
    let spack = newest_spack(&request.cache)?;
    let caches = build_caches(&request.cache);
    let chosen = choose(&caches, request);
    if chosen.is_empty() {
        let cache = shown(&request.cache);
        return Err(Report::new(Kind::NotFound, format!("no package in {cache} matches"))
            .hinted("`cabane cache ls` lists the packages".to_owned())
            .into());
    }
    let mut pushed = Pushed { target: target.clone(), packages: 0, present: 0, bytes: 0 };
    let to = BuildCache { path: target, mount_point: None };
    for (from, package) in chosen.values() {
        copy_package(from, package, &to, &mut pushed)?;
    }
    update_index(&spack, request, &to.path)?;
    Ok(pushed)
}

/// Reads where packages go.
fn directory_of(target: &str) -> Result<PathBuf> {
    let path = target.strip_prefix("file://").unwrap_or(target);
    if path.contains("://") {
        return Err(BuildError::refused(
            format!("cannot push packages to {}: it is not a directory", escape(target)),
            "for registries and S3, name the build cache in mirrors.yaml: builds push to it",
        ));
    }
    let path = Path::new(path);
    std::path::absolute(path).map_err(BuildError::file("find", path))
}

/// Returns the packages to be copied, by their hashes.
fn choose<'a>(
    caches: &'a [BuildCache],
    request: &PushCache,
) -> BTreeMap<String, (&'a BuildCache, Package)> {
    let mut ordered: Vec<&BuildCache> = caches.iter().collect();
    let length = |cache: &BuildCache| cache.mount_point.as_ref().map(|path| path.as_os_str().len());
    // The last counts.
    ordered.sort_by_key(|cache| length(cache));
    if let Some(mount_point) = &request.mount_point {
        ordered.retain(|cache| cache.mount_point.as_ref() == Some(mount_point));
    }
    let mut chosen = BTreeMap::new();
    for cache in ordered {
        for package in cache.packages() {
            if request.names.is_empty() || request.names.contains(&package.name) {
                chosen.insert(package.hash.clone(), (cache, package));
            }
        }
    }
    chosen
}

fn copy_package(
    from: &BuildCache,
    package: &Package,
    to: &BuildCache,
    pushed: &mut Pushed,
) -> Result<()> {
    let relative = package.manifest.strip_prefix(&from.path).unwrap_or(&package.manifest);
    let manifest = to.path.join(relative);
    if manifest.exists() {
        pushed.present += 1;
        return Ok(());
    }
    let blobs = blobs(&package.manifest).ok_or_else(|| {
        BuildError::refused(
            format!("cannot read the manifest {}", shown(&package.manifest)),
            "`cabane cache verify --repair` removes damaged packages",
        )
    })?;
    for blob in &blobs {
        let target = to.blob(blob);
        if !target.exists() {
            copy_file(&from.blob(blob), &target)?;
            pushed.bytes += blob.size;
        }
    }
    let layout = Path::new("v3/layout.json");
    if !to.path.join(layout).exists() {
        copy_file(&from.path.join(layout), &to.path.join(layout))?;
    }
    // The manifest comes last: everything that it names is there then.
    copy_file(&package.manifest, &manifest)?;
    pushed.packages += 1;
    Ok(())
}

/// Copies a file: it is there as a whole or not at all.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let is_file = from.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file {
        // A build can write into its cache: a link may lead to a file that is private.
        return Err(BuildError::refused(
            format!("{} is not a file", shown(from)),
            "`cabane cache verify --repair` removes damaged packages",
        ));
    }
    disk::make_directory(to.parent().unwrap_or(to))?;
    let new = to.with_extension(format!("new-{}", std::process::id()));
    fs::copy(from, &new).map_err(BuildError::file("copy", from))?;
    disk::rename(&new, to)
}

/// Returns the Spack in the cache that a build used last.
fn newest_spack(cache: &Path) -> Result<PathBuf> {
    let trees = children(&cache.join("trees")).into_iter();
    let spacks = trees.filter(|tree| tree.join("bin/spack").is_file());
    let newest = spacks.max_by_key(|tree| tree.metadata().and_then(|found| found.modified()).ok());
    newest.ok_or_else(|| {
        BuildError::refused(
            format!("cannot write the index: the cache {} has no Spack", shown(cache)),
            "build a stack first: `cabane build RECIPE`",
        )
    })
}

fn update_index(spack: &Path, request: &PushCache, target: &Path) -> Result<()> {
    let name = format!("push-{}", std::process::id());
    let scratch = request.cache.join("spack").join(name);
    disk::make_empty(&scratch)?;
    let mut url = std::ffi::OsString::from("file://");
    url.push(target);
    let program = spack.join("bin/spack");
    let output = Command::new(&program)
        .args(["buildcache", "update-index"])
        .arg(&url)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &scratch)
        .env("SPACK_PYTHON", &request.python)
        .env("SPACK_DISABLE_LOCAL_CONFIG", "1")
        .env("SPACK_USER_CACHE_PATH", scratch.join("cache"))
        .env("SPACK_COLOR", "never")
        // What builds have compiled is not run outside of their sandbox.
        .env("PYTHONPYCACHEPREFIX", scratch.join("bytecode"))
        .stdin(Stdio::null())
        .output();
    let removed = disk::remove(&scratch);
    let output = output.map_err(BuildError::file("start", &program))?;
    removed?;
    if output.status.success() {
        return Ok(());
    }
    let said = lines(&[output.stdout, output.stderr].concat()).join("\n");
    let message = format!("Spack did not write the index of {}", shown(target));
    let hint = "the packages are copied; the same command tries the index again".to_owned();
    Err(Report::new(Kind::Build, message).detailed(said).hinted(hint).into())
}
