// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is in the cache directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;

use super::WORKERS;
use super::packages::{BuildCache, blobs, build_caches, children, files_below};
use crate::python::TOOLS;
use crate::{disk, size_of};

/// What kind of thing something in the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemKind {
    /// A package that was built.
    Package,
    /// What the concretizer decided.
    Concretization,
    /// The files of a commit of Spack or of package recipes.
    Tree,
    /// A clone of a Git repository.
    Clone,
    /// A source, an archive, or a program that was downloaded.
    Download,
    /// What Spack worked out about its packages.
    Index,
    /// Downloads of Python packages, and environments made of them: `uv` looks after these.
    Python,
}

impl ItemKind {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Concretization => "concretization",
            Self::Tree => "tree",
            Self::Clone => "clone",
            Self::Download => "download",
            Self::Index => "index",
            Self::Python => "python",
        }
    }
}

/// Something in the cache.
#[derive(Clone, Debug, Serialize)]
pub struct CachedItem {
    /// What it is.
    pub kind: ItemKind,
    /// What it is called: a package, an address, a commit.
    pub name: String,
    /// The version of a package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The hash of a package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The mount point that a package was built for, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<PathBuf>,
    /// How many bytes it has.
    pub size: u64,
    /// When a build used it last.
    pub used: Timestamp,
    /// The file or directory; of a package, its manifest.
    pub path: PathBuf,
}

/// Everything in a cache directory.
#[derive(Clone, Debug, Serialize)]
pub struct Inventory {
    /// The directory.
    pub directory: PathBuf,
    /// What is in it: packages, then the rest, each sorted by name.
    pub items: Vec<CachedItem>,
    /// How many bytes all of it has.
    pub size: u64,
}

/// Lists what is in a cache directory. What cannot be read is left out.
#[must_use]
pub fn inventory(cache: &Path) -> Inventory {
    let mut items: Vec<CachedItem> = build_caches(cache).iter().flat_map(of_packages).collect();
    items.extend(children(&cache.join("spack/concretized")).into_iter().filter_map(|path| {
        let id = path.file_stem()?.to_string_lossy().chars().take(16).collect();
        item(ItemKind::Concretization, id, path)
    }));
    items.extend(directories(&cache.join("spack/solutions")).filter_map(|path| {
        let id = path.file_name()?.to_string_lossy().into_owned();
        item(ItemKind::Concretization, format!("solutions {id}"), path)
    }));
    items.extend(directories(&cache.join("trees")).filter_map(|path| {
        let commit: String = path.file_name()?.to_string_lossy().chars().take(16).collect();
        let what = if path.join("bin/spack").exists() { "Spack" } else { "packages" };
        item(ItemKind::Tree, format!("{what} {commit}"), path)
    }));
    items.extend(
        directories(&cache.join("git"))
            .filter_map(|path| item(ItemKind::Clone, address_of(&path), path)),
    );
    items.extend(directories(&cache.join(TOOLS)).filter_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        item(ItemKind::Download, name, path)
    }));
    for directory in ["archives", "spack/archives", "easybuild/sources"] {
        let mut files = Vec::new();
        files_below(&cache.join(directory), &mut files);
        files.retain(|path| path.extension().is_none_or(|ending| ending != "lock"));
        items.extend(files.into_iter().filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            item(ItemKind::Download, name, path)
        }));
    }
    let bytecode = Some(cache.join("spack/bytecode")).filter(|path| path.is_dir());
    let about = Some(cache.join("spack/about")).filter(|path| path.is_dir());
    let indices = directories(&cache.join("spack/index")).chain(bytecode).chain(about);
    items.extend(indices.filter_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        item(ItemKind::Index, name, path)
    }));
    let python = ["uv", "spack/python", "easybuild/python"].map(|name| (name, cache.join(name)));
    let python = python.into_iter().filter(|(_, path)| path.is_dir());
    items.extend(python.filter_map(|(name, path)| item(ItemKind::Python, name.to_owned(), path)));
    let size = items.iter().map(|one| one.size).sum();
    Inventory { directory: cache.to_owned(), items, size }
}

fn of_packages(cache: &BuildCache) -> Vec<CachedItem> {
    let items = cache.packages().into_iter().filter_map(|package| {
        let found = item(ItemKind::Package, package.name, package.manifest)?;
        let blobs = blobs(&found.path).unwrap_or_default();
        let size: u64 = blobs.iter().map(|blob| blob.size).sum();
        Some(CachedItem {
            version: Some(package.version),
            hash: Some(package.hash),
            mount_point: cache.mount_point.clone(),
            size: found.size.saturating_add(size),
            ..found
        })
    });
    items.collect()
}

fn item(kind: ItemKind, name: String, path: PathBuf) -> Option<CachedItem> {
    let found = fs::symlink_metadata(&path).ok()?;
    let size = if found.is_dir() { size_of(&path) } else { found.len() };
    let mut used = found.modified().ok()?;
    if kind == ItemKind::Download {
        // Spack does not say that it used a source; the file system does.
        used = used.max(found.accessed().unwrap_or(SystemTime::UNIX_EPOCH));
    }
    let used = Timestamp::try_from(used).unwrap_or(Timestamp::UNIX_EPOCH);
    Some(CachedItem { kind, name, version: None, hash: None, mount_point: None, size, used, path })
}

/// Directories of what builds share, in which a half of something is taken for the whole.
const SHARED: [&str; 4] = ["trees", "git", "spack/index", "spack/solutions"];
/// How the name of a directory ends that is being removed.
pub(super) const GONE: &str = ".gone";
/// How the names of what is being made end.
const NEW: &str = ".new";

/// Returns what killed processes have left: what is half made or half removed, and the directories of
/// workers. The caller has the cache alone.
pub(super) fn halves(cache: &Path) -> Vec<PathBuf> {
    let all = SHARED.iter().flat_map(|name| children(&cache.join(name)));
    all.filter(|path| is_half(path)).chain(children(&cache.join(WORKERS))).collect()
}

/// Whether the name of a path says that it is half made or half removed.
pub(super) fn is_half(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(GONE.as_bytes()) || name.ends_with(NEW.as_bytes())
}

/// Lists the directories in a directory, without following links: a build could
/// have made them, and what is behind them belongs to others.
fn directories(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_real = directory.symlink_metadata().is_ok_and(|found| found.is_dir());
    let all = if is_real { children(directory) } else { Vec::new() };
    all.into_iter().filter(|path| path.is_dir() && !path.is_symlink() && !is_half(path))
}

/// Returns the address of a clone: Git notes where it fetched from last.
fn address_of(clone: &Path) -> String {
    let note = disk::read_start(&clone.join("FETCH_HEAD"), 1 << 16).unwrap_or_default();
    let note = String::from_utf8_lossy(&note).into_owned();
    let first = note.lines().next().unwrap_or_default();
    let last = first.rsplit(['\t', ' ']).next().filter(|address| !address.is_empty());
    let name = || clone.file_name().unwrap_or_default().to_string_lossy().into_owned();
    last.map_or_else(name, str::to_owned)
}
