// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting packages of the cache into a build cache that any Spack can use.
//!
//! Files are copied as they are: a blob is named by its checksum. A package is signed after all of its
//! files were compared with their checksums. Spack writes the index, with a version of it that a build left
//! in the cache.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report};
use serde::Serialize;

use super::in_use::InUse;
use super::packages::{Blob, BuildCache, LARGEST, Package, blobs_in, build_caches, children};
use super::signatures::{self, PackageSigner, read_plain};
use super::verify::of_blob;
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
    /// The key that signs the packages.
    pub signer: Option<Arc<dyn PackageSigner>>,
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
    /// How many packages were signed; those with a valid signature of the same key are not signed again.
    pub signed: usize,
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
    refuse_open(&target)?;
    if !request.cache.is_dir() {
        let cache = shown(&request.cache);
        return Err(Report::new(Kind::NotFound, format!("there is no cache at {cache}"))
            .hinted("build a stack first: `cabane build RECIPE`".to_owned())
            .into());
    }
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
    disk::make_directory(&target)?;
    let _target = InUse::share(&target, &mut (), &AtomicBool::new(false))?;
    let mut pushed =
        Pushed { target: target.clone(), packages: 0, present: 0, signed: 0, bytes: 0 };
    let to = BuildCache { path: target, mount_point: None };
    let signer = request.signer.as_deref();
    for (from, package) in chosen.values() {
        push_package(from, package, &to, signer, &mut pushed)?;
    }
    update_index(&spack, &request.python, &to.path)?;
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

/// Fails for a directory in which everybody can write: a link there can lead to files of the account that
/// pushes.
fn refuse_open(target: &Path) -> Result<()> {
    const ALL_WRITE: u32 = 0o002;
    let found = fs::metadata(target);
    if !found.is_ok_and(|found| found.permissions().mode() & ALL_WRITE != 0) {
        return Ok(());
    }
    let path = shown(target);
    let message = format!("cannot push packages to {path}: all users can write there");
    let hint = format!(
        "remove what others have left there, then leave it to its owner and group: `chmod -R o-w {path}`"
    );
    Err(Report::new(Kind::Build, message).hinted(hint).into())
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

/// Copies a package unless it is there, and signs it. A package that is there without a valid signature may
/// be that of a stranger: it is replaced.
fn push_package(
    from: &BuildCache,
    package: &Package,
    to: &BuildCache,
    signer: Option<&dyn PackageSigner>,
    pushed: &mut Pushed,
) -> Result<()> {
    let relative = package.manifest.strip_prefix(&from.path).unwrap_or(&package.manifest);
    let target = to.path.join(relative);
    let present = read_plain(&target, LARGEST).ok().flatten();
    let is_enough = |present: &[u8]| {
        let name = (package.name.as_str(), &*package.id());
        signer.is_none_or(|signer| signatures::check(&to.path, name, present, signer).is_ok())
    };
    if present.as_deref().is_some_and(is_enough) {
        pushed.present += 1;
        return Ok(());
    }
    let manifest = read_plain(&package.manifest, LARGEST).ok().flatten();
    let blobs = manifest.as_ref().and_then(|manifest| blobs_in(manifest));
    let (Some(manifest), Some(blobs)) = (manifest, blobs) else {
        return Err(damaged(&package.manifest, "cannot read the manifest"));
    };
    for blob in &blobs {
        copy_blob(from, to, blob, pushed)?;
    }
    let layout = Path::new("v3/layout.json");
    if !to.path.join(layout).exists() {
        copy_file(&from.path.join(layout), &to.path.join(layout), |_| Ok(()))?;
    }
    // The manifest comes last: everything that it names is there then.
    if present.as_ref() == Some(&manifest) {
        pushed.present += 1;
    } else {
        disk::make_directory(target.parent().unwrap_or(&target))?;
        disk::write(&target, &manifest)?;
        pushed.packages += 1;
    }
    if let Some(signer) = signer {
        signatures::sign(to, package, &manifest, from.mount_point.as_deref(), signer)?;
        pushed.signed += 1;
    }
    Ok(())
}

/// Copies a file that a manifest names, unless it is there.
fn copy_blob(from: &BuildCache, to: &BuildCache, blob: &Blob, pushed: &mut Pushed) -> Result<()> {
    let (source, target) = (from.blob(blob), to.blob(blob));
    if target.exists() && of_blob(blob, &target).is_none() {
        return Ok(());
    }
    let check = |copy: &Path| match of_blob(blob, copy) {
        None => Ok(()),
        Some(problem) => Err(damaged(&source, &format!("cannot push a package: {problem}"))),
    };
    copy_file(&source, &target, check)?;
    pushed.bytes += blob.size;
    Ok(())
}

fn damaged(path: &Path, what: &str) -> BuildError {
    let hint = "`cabane cache verify --repair` removes damaged packages";
    BuildError::refused(format!("{what}: {}", shown(path)), hint)
}

/// Copies a file: it is there as a whole or not at all. `check` looks at the copy before it gets its name.
fn copy_file(from: &Path, to: &Path, check: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let is_file = from.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file {
        // A build can write into its cache: a link may lead to a file that is private.
        return Err(damaged(from, "it is not a file"));
    }
    disk::make_directory(to.parent().unwrap_or(to))?;
    let new = to.with_extension(format!("new-{}", std::process::id()));
    let copy = || {
        let mut source = File::open(from)?;
        let mut copy = disk::create_new(&new)?;
        io::copy(&mut source, &mut copy)?;
        copy.set_permissions(source.metadata()?.permissions())
    };
    let copied = copy().map_err(BuildError::file("copy", from));
    copied.and_then(|()| check(&new)).and_then(|()| disk::rename(&new, to)).inspect_err(|_| {
        // What is left of a copy has no name that matters.
        let _ = disk::remove(&new);
    })
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

/// Has Spack write the index. Its own files are in a directory that nobody else can write into: the cache may
/// belong to others.
fn update_index(spack: &Path, python: &Path, target: &Path) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("cabane-push-").tempdir();
    let scratch = scratch.map_err(BuildError::file("make a directory in", &env::temp_dir()))?;
    let mut url = std::ffi::OsString::from("file://");
    url.push(target);
    let program = spack.join("bin/spack");
    let output = Command::new(&program)
        .args(["buildcache", "update-index"])
        .arg(&url)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", scratch.path())
        .env("SPACK_PYTHON", python)
        .env("SPACK_DISABLE_LOCAL_CONFIG", "1")
        .env("SPACK_USER_CACHE_PATH", scratch.path().join("cache"))
        .env("SPACK_COLOR", "never")
        // What builds have compiled is not run outside of their sandbox.
        .env("PYTHONPYCACHEPREFIX", scratch.path().join("bytecode"))
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(BuildError::file("start", &program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = lines(&[output.stdout, output.stderr].concat()).join("\n");
    let message = format!("Spack did not write the index of {}", shown(target));
    let hint = "the packages are copied; the same command tries the index again".to_owned();
    Err(Report::new(Kind::Build, message).detailed(said).hinted(hint).into())
}
