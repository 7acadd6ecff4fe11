// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the files of a build are made: on the disk, or in memory.
//!
//! The build directory is always on the disk and holds what is small or lasts: markers,
//! logs, lock files, metadata, the image. What is large and passes is in memory if it
//! fits: the tree, `/tmp` and the home of the sandbox. It goes when the image is there.
//!
//! ```text
//! <build>/memory.json                     where it is, version 1
//! /dev/shm/cabane-build-<uid>/            closed to others
//! └── <build>-<token>/
//!     ├── of                              the path of the build directory; locked during a build
//!     └── store/ tmp/ home/
//! ```
//!
//! The token is new whenever the directory is: one that another node, another boot or an
//! older build left is never taken for this one's. In another container, the same path may be another build
//! directory: what is locked is not removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cabane_label::shown;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::leftovers::{is_under_way, size_of};
use crate::memory::{self, Free};
use crate::{BuildError, BuildRequest, InMemory, Result, disk, fingerprint};

const VERSION: u32 = 1;
/// The file that says whose a directory in memory is.
const OF: &str = "of";

/// What a build directory says about its part in memory.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    version: u32,
    path: PathBuf,
    /// Whether it stays when the build is done.
    kept: bool,
}

/// Decides where a build takes place, and returns what its user should know about that.
/// Nothing is changed.
pub(crate) fn decide(
    request: &BuildRequest,
    name: &str,
    root: PathBuf,
) -> (Layout, Option<String>) {
    let mut layout = Layout::new(root);
    let Some(requested) = &request.memory else {
        return (layout, None);
    };
    // What was begun on the disk goes on there.
    if layout.store().exists() || !requested.directory.exists() {
        return (layout, None);
    }
    let begun = Record::read(&layout).map(|record| record.path);
    let begun = begun.filter(|path| is_own(path));
    match fits(request, requested, name, begun.as_deref()) {
        Ok(()) => {
            let path = begun.unwrap_or_else(|| fresh(requested, &layout));
            layout.memory = Some(path);
            (layout, None)
        }
        Err(reason) => (layout, Some(format!("building on the disk: {reason}"))),
    }
}

fn fits(
    request: &BuildRequest,
    requested: &InMemory,
    name: &str,
    begun: Option<&Path>,
) -> Result<(), String> {
    let parent = &requested.directory;
    if !memory::is_in_memory(parent) {
        return Err(format!("{} is not in memory", shown(parent)));
    }
    let own = own_directory(parent);
    if own.symlink_metadata().is_ok() && !is_own(&own) {
        return Err(format!("{} belongs to another user", shown(&own)));
    }
    let Some(mut free) = Free::ask(parent, requested.job_limit) else {
        return Err("the amount of free memory is unknown".to_owned());
    };
    let known = memory::need(&request.cache_dir, name);
    let need = known.unwrap_or(memory::UNKNOWN);
    if let Some(begun) = begun {
        let used = size_of(begun);
        free.files = free.files.saturating_add(used);
        free.all = free.all.saturating_add(used);
    }
    if free.fits(need, request.jobs) {
        return Ok(());
    }
    let why = match known {
        Some(_) => "as the last one used",
        None => "as is assumed of one that is new",
    };
    Err(format!(
        "{:.1} GiB, {why}, do not fit into the {:.1} GiB of memory that are free for it",
        gibibytes(need),
        gibibytes(free.largest(request.jobs)),
    ))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// The user's directory for builds in memory.
fn own_directory(parent: &Path) -> PathBuf {
    parent.join(format!("cabane-build-{}", geteuid().as_raw()))
}

/// A directory that no one else could have made or can enter.
fn is_own(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode().trailing_zeros() >= 6
    })
}

fn fresh(requested: &InMemory, layout: &Layout) -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = format!("{} {:?}", std::process::id(), now.unwrap_or_default());
    let token = fingerprint::of_bytes(seed.as_bytes());
    let name = layout.root.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    own_directory(&requested.directory).join(format!("{name}-{}", &token.as_str()[..8]))
}

/// Returns where a build is in memory, as far as that is certain before it begins.
pub(crate) fn to_be_shown(layout: &Layout) -> Option<PathBuf> {
    let path = layout.memory.as_deref()?;
    let known = if path.exists() { Some(path) } else { path.parent() };
    known.map(Path::to_owned)
}

/// A part in memory that is in use until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim {
    _locked: Option<File>,
}

/// Makes the part in memory and notes where it is; what an earlier build of the same
/// directory left in memory elsewhere is removed. Only while no one else builds there.
pub(crate) fn claim(request: &BuildRequest, layout: &Layout) -> Result<Claim> {
    let Some(requested) = &request.memory else {
        return Ok(Claim { _locked: None });
    };
    let path = layout.memory.as_deref();
    remove_older(&requested.directory, &layout.root, path)?;
    let Some(path) = path else {
        disk::remove(&layout.memory_record())?;
        return Ok(Claim { _locked: None });
    };
    make_closed(&own_directory(&requested.directory))?;
    make_closed(path)?;
    let of = path.join(OF);
    let options = OpenOptions::new().write(true).create(true).truncate(false).clone();
    let mut file = options.open(&of).map_err(BuildError::file("write", &of))?;
    // Before it says whose it is. The turn of the build directory is taken, so nobody else waits for it.
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from);
    let root = layout.root.as_os_str().as_bytes();
    let written = locked.and_then(|()| file.set_len(0)).and_then(|()| file.write_all(root));
    written.map_err(BuildError::file("write", &of))?;
    let record = Record { version: VERSION, path: path.to_owned(), kept: request.keep };
    disk::write_json(&layout.memory_record(), &record)?;
    Ok(Claim { _locked: Some(file) })
}

/// Removes what earlier builds of a directory left in memory.
fn remove_older(parent: &Path, build: &Path, own: Option<&Path>) -> Result<()> {
    for old in parts(parent) {
        if old.build == build && Some(old.path.as_path()) != own && !old.is_in_use() {
            disk::remove(&old.path)?;
        }
    }
    Ok(())
}

/// Removes the part in memory of a build that is done, unless it is to be kept.
pub(crate) fn release(layout: &Layout) -> Result<()> {
    let Some(record) = Record::read(layout).filter(|record| !record.kept) else {
        return Ok(());
    };
    if is_own(&record.path) {
        disk::remove(&record.path)?;
    }
    disk::remove(&layout.memory_record())
}

fn make_closed(path: &Path) -> Result<()> {
    let failed = BuildError::file("make the directory", path);
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(path) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

impl Record {
    fn read(layout: &Layout) -> Option<Self> {
        let record: Self = disk::read_json(&layout.memory_record(), 1 << 16)?;
        (record.version == VERSION).then_some(record)
    }
}

/// The part of a build that is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    /// The build directory it belongs to.
    build: PathBuf,
}

impl Part {
    /// Whether a build works in it now, perhaps one in another container.
    fn is_in_use(&self) -> bool {
        let Ok(file) = File::open(self.path.join(OF)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared)
            .is_err_and(|errno| errno == Errno::WOULDBLOCK)
    }
}

/// Finds the parts of this user's builds.
fn parts(parent: &Path) -> Vec<Part> {
    let own = own_directory(parent);
    if !is_own(&own) {
        return Vec::new();
    }
    let entries = fs::read_dir(own).into_iter().flatten().flatten();
    let mut found: Vec<Part> = entries
        .filter(|entry| is_own(&entry.path()))
        .map(|entry| {
            let path = entry.path();
            // One that a build was killed over before it could say whose it is.
            let build = fs::read(path.join(OF)).unwrap_or_default();
            let build = PathBuf::from(std::ffi::OsString::from_vec(build));
            Part { path, build }
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Returns what this user's builds have in memory, apart from those under way.
pub fn left_in_memory(parent: &Path) -> Vec<PathBuf> {
    let parts = parts(parent).into_iter();
    let is_used =
        |part: &Part| part.is_in_use() || (part.build.is_absolute() && is_under_way(&part.build));
    let left = parts.filter(|part| !is_used(part));
    left.map(|part| part.path).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_that_others_can_enter_is_not_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("build");
        make_closed(&path).unwrap();
        let was_own = is_own(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o710)).unwrap();
        assert!(was_own && !is_own(&path));
    }

    #[test]
    fn a_link_to_a_directory_of_ours_is_not_ours() {
        let directory = tempfile::tempdir().unwrap();
        let (own, link) = (directory.path().join("own"), directory.path().join("link"));
        make_closed(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(!is_own(&link));
    }

    #[test]
    fn what_a_build_of_the_same_path_in_another_container_uses_stays() {
        let parent = tempfile::tempdir().unwrap();
        let own = own_directory(parent.path());
        make_closed(&own).unwrap();
        let build = Path::new("/home/alice/builds/app");
        let [used, left] = ["app-1", "app-2"].map(|name| own.join(name));
        for path in [&used, &left] {
            make_closed(path).unwrap();
            fs::write(path.join(OF), build.as_os_str().as_bytes()).unwrap();
        }
        let lock = File::open(used.join(OF)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_older(parent.path(), build, None).unwrap();
        assert!(used.exists() && !left.exists());
        assert_eq!(left_in_memory(parent.path()), Vec::<PathBuf>::new());
        drop(lock);
        assert_eq!(left_in_memory(parent.path()), [used]);
    }

    #[test]
    fn every_directory_in_memory_is_a_new_one() {
        let requested = InMemory { directory: "/dev/shm".into(), job_limit: None };
        let layout = Layout::new("/builds/app".into());
        assert_ne!(fresh(&requested, &layout), fresh(&requested, &layout));
    }
}
