// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory that the workers of one build see.
//!
//! ```text
//! <cache>/workers/<node>-<kernel>-<id>.lock   locked by the build as long as it lives
//! <cache>/workers/<node>-<kernel>-<id>/       of one build, removed at its end
//! ├── inputs/                                 what was concretized
//! └── <number>/                               of one worker
//!     ├── build/                              its build directory: logs, and what is not in its memory
//!     └── output                              what it prints
//! ```
//!
//! A build removes what killed builds on the same running kernel have left. On some file systems, a lock is
//! visible on its own node only, and nodes of two clusters can have the same name. So directories of other
//! kernels stay: `cabane cache gc` removes them.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::team::Team;
use super::{BUILD, copy_inputs, worker};
use crate::build_context::BuildContext;
use crate::cache::WORKERS;
use crate::spack::SpackEngine;
use crate::{BuildError, Result, disk};

/// How the name of a lock ends.
const LOCK: &str = ".lock";
/// How many names are tried: another build may remove a lock that is not locked yet.
const ATTEMPTS: usize = 10;

/// The directory that all workers of a build see.
pub(super) struct Shared {
    path: PathBuf,
    lock: PathBuf,
    is_kept: bool,
    /// Released by the kernel if the build is killed.
    _locked: File,
}

impl Shared {
    /// Makes the directory, and removes those of killed builds on this node.
    pub(super) fn prepare(engine: &SpackEngine, bench: &BuildContext<'_>) -> Result<Self> {
        let all = engine.request.cache_dir.join(WORKERS);
        let mut shared = Self::make(&all, &owner(&worker::node(), &boot_id()))?;
        shared.is_kept = engine.request.keep;
        copy_inputs(&bench.layout.work(), &shared.inputs())?;
        for environment in &engine.stack().environments {
            // Locks of Spack, and what only belongs to this store.
            let own = shared.inputs().join("spack/env").join(&environment.name).join(".spack-env");
            disk::remove(&own)?;
        }
        Ok(shared)
    }

    fn make(all: &Path, owner: &str) -> Result<Self> {
        disk::make_directory(all)?;
        collect(all, owner);
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let random = RandomState::new().hash_one(std::process::id());
            let path = all.join(format!("{owner}-{random:016x}"));
            let lock = with_ending(&path);
            let made = lock_new(&lock).and_then(|locked| fs::create_dir(&path).map(|()| locked));
            match made {
                Ok(locked) => return Ok(Self { path, lock, is_kept: false, _locked: locked }),
                Err(error) => last = error,
            }
        }
        Err(BuildError::file("make a directory in", all)(last))
    }

    pub(super) fn inputs(&self) -> PathBuf {
        self.path.join("inputs")
    }

    pub(super) fn worker(&self, number: usize) -> PathBuf {
        self.path.join(number.to_string())
    }

    /// Puts the logs of the workers beside that of the step.
    pub(super) fn keep_logs(&self, team: &Team, bench: &BuildContext<'_>) {
        for (number, name) in team.names().enumerate() {
            let from = self.worker(number).join(BUILD).join("logs/install.log");
            let name = format!("install-{number}-{}.log", name.replace('/', "-"));
            let _ = fs::copy(from, bench.layout.logs().join(name));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without its lock, the next build lets it be. What cannot be removed now, the next build removes.
        if self.is_kept || disk::remove(&self.path).is_ok() {
            let _ = disk::remove(&self.lock);
        }
    }
}

/// Returns how the names of the directories begin that builds on this kernel make.
fn owner(node: &str, boot_id: &str) -> String {
    let kernel: String = boot_id.chars().filter(char::is_ascii_hexdigit).collect();
    format!("{node}-{kernel}")
}

/// Returns the number of this start of the kernel; empty if it is unknown.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Removes what killed builds of an owner have left. What cannot be removed is no failure.
fn collect(all: &Path, owner: &str) {
    let prefix = format!("{owner}-");
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(LOCK)?.strip_prefix(&prefix));
        let is_id = |id: &str| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let Some(id) = id.filter(|id| is_id(id)) else { continue };
        let lock = entry.path();
        // NFS locks only what is open for writing.
        let Ok(file) = File::options().read(true).write(true).open(&lock) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && disk::remove(&all.join(format!("{prefix}{id}"))).is_ok()
        {
            let _ = disk::remove(&lock);
        }
    }
}

fn with_ending(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LOCK);
    name.into()
}

/// Makes a file and locks it.
fn lock_new(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Where there are no locks, nothing is collected.
        Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(file),
        Err(errno) => return Err(errno.into()),
    }
    // Another build may have removed it before it was locked.
    let (here, locked) = (fs::metadata(path)?, file.metadata()?);
    let is_same = (here.dev(), here.ino()) == (locked.dev(), locked.ino());
    is_same.then_some(file).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves what a killed build leaves: its lock is not locked.
    fn killed(all: &Path, node: &str) -> PathBuf {
        let path = all.join(format!("{node}-0123456789abcdef"));
        disk::put(&path.join("0/output"), "text").unwrap();
        disk::put(&with_ending(&path), "").unwrap();
        path
    }

    fn names(all: &Path) -> usize {
        all.read_dir().unwrap().count()
    }

    #[test]
    fn what_a_killed_build_left_is_removed_by_the_next_one_on_the_node() {
        let all = tempfile::tempdir().unwrap();
        let make = |node| Shared::make(all.path(), node).unwrap();
        let killed = killed(all.path(), "n1");
        let other_node = make("n2");
        assert!(killed.exists());
        let next = make("n1");
        assert!(!killed.exists() && other_node.path.exists());
        drop((next, other_node));
        assert_eq!(names(all.path()), 0);
    }

    #[test]
    fn a_node_with_the_same_name_in_another_cluster_has_its_own_directories() {
        let all = tempfile::tempdir().unwrap();
        let own = owner("n1", &boot_id());
        let other = owner("n1", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\n");
        assert!(own != other && own.len() == other.len(), "{own}");
        let of_other = killed(all.path(), &other);
        drop(Shared::make(all.path(), &own).unwrap());
        assert!(of_other.is_dir());
        drop(Shared::make(all.path(), &other).unwrap());
        assert!(!of_other.exists());
    }

    #[test]
    fn builds_at_the_same_time_have_their_own_directories() {
        let all = tempfile::tempdir().unwrap();
        let [one, two] = [(); 2].map(|()| Shared::make(all.path(), "n1").unwrap());
        assert!(one.path != two.path && one.path.is_dir() && two.path.is_dir());
        // A build on a node whose name begins like this one has its own as well.
        let third = killed(all.path(), "n1-a");
        drop(Shared::make(all.path(), "n1").unwrap());
        assert!(one.path.is_dir() && two.path.is_dir() && third.is_dir());
    }

    #[test]
    fn what_is_kept_is_left_alone() {
        let all = tempfile::tempdir().unwrap();
        let mut kept = Shared::make(all.path(), "n1").unwrap();
        kept.is_kept = true;
        let path = kept.path.clone();
        drop(kept);
        drop(Shared::make(all.path(), "n1").unwrap());
        assert!(path.is_dir() && names(all.path()) == 1);
    }
}
