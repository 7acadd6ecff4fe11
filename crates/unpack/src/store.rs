// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory of a node, and what is in it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cabane_label::{Digest, shown, shown_word};
use cabane_mount::{UnpackedTree, trusted};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

use crate::in_use::Mounted;
use crate::objects::entries;
use crate::record::Record;

pub(crate) const OBJECTS: &str = "objects";
pub(crate) const STAGING: &str = "staging";
pub(crate) const REMOVED: &str = "removed";
/// Directories of a store, and their modes.
const PARTS: [(&str, u32); 4] =
    [(OBJECTS, 0o700), (UnpackedTree::TREES, 0o755), (STAGING, 0o700), (REMOVED, 0o700)];

/// The unpacked images of a node, while they are changed.
#[derive(Debug)]
pub struct Store {
    pub(crate) path: PathBuf,
    /// Held while this value lives.
    _lock: File,
}

/// An unpacked image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedImage {
    /// The digest of the image.
    pub digest: Digest,
    /// What is known of it, if its record can be read.
    pub record: Option<Record>,
    /// The size of the files that no other image has, in bytes.
    pub own: u64,
    /// Whether a process has it mounted. Only root can see that.
    pub is_in_use: Option<bool>,
}

impl Store {
    /// Opens the store of this node to change it. Where there is none, it is made; others who change it
    /// are waited for. What a killed process has left is removed.
    ///
    /// # Errors
    ///
    /// The caller is not root, or others could change the directory or one above it; those of the file
    /// system.
    pub fn open(context: &Context) -> Result<Self> {
        if !geteuid().is_root() {
            let message = "only root can change the unpacked images of a node";
            let hint = "type `sudo` before the command";
            return Err(Report::new(Kind::Failure, message).hinted(hint.to_owned()));
        }
        let path = path()?;
        make(&path)?;
        let failed = || format!("lock {}", shown(&path));
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join("lock")).or_failed(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                context.note("waiting for another process that changes the unpacked images");
                lock.lock().or_failed(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).or_failed(failed),
        }
        let store = Self { path, _lock: lock };
        if store.clear_staging()? {
            store.remove_unused_objects()?;
        }
        store.sweep()?;
        Ok(store)
    }

    pub(crate) fn trees(&self) -> PathBuf {
        self.path.join(UnpackedTree::TREES)
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.path.join(STAGING)
    }

    pub(crate) fn removed(&self) -> PathBuf {
        self.path.join(REMOVED)
    }

    /// Removes what is in the staging area; tells whether there was anything.
    pub(crate) fn clear_staging(&self) -> Result<bool> {
        let left = entries(&self.staging()).or_failed(|| "read the staging area".to_owned())?;
        for path in &left {
            remove_all(path).or_failed(|| format!("remove {}", shown(path)))?;
        }
        Ok(!left.is_empty())
    }
}

/// Returns where the unpacked images of this node are.
fn path() -> Result<PathBuf> {
    cabane_mount::unpacked::store().ok_or_else(|| {
        let message =
            "the policy of the helper cannot be read, which says where unpacked images are";
        let hint = "`cabane doctor` shows what is wrong with /etc/cabane/mount.policy";
        Report::new(Kind::BadInput, message).hinted(hint.to_owned())
    })
}

/// Lists the unpacked images of this node, by their labels.
///
/// # Errors
///
/// The policy cannot be read; others than root could have put something there; those of reading.
pub fn list() -> Result<Vec<UnpackedImage>> {
    let path = path()?;
    let trees = path.join(UnpackedTree::TREES);
    if !trees.exists() {
        return Ok(Vec::new());
    }
    check_trust(&trees)?;
    let mounted = geteuid().is_root().then(Mounted::now);
    let mut found = Vec::new();
    for directory in entries(&trees).or_failed(|| format!("list {}", shown(&trees)))? {
        let name = directory.file_name().unwrap_or_default();
        let Some(digest) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let mut names = BTreeMap::new();
        let tree = directory.join(UnpackedTree::TREE);
        count_names(&tree, &mut names).or_failed(|| format!("list {}", shown(&tree)))?;
        // Beside those in this tree, it has its name among the objects.
        let own = names.values().filter(|(here, all, _)| here + 1 >= *all).map(|(.., size)| size);
        found.push(UnpackedImage {
            digest,
            record: Record::read(&directory),
            own: own.sum(),
            is_in_use: mounted.as_ref().map(|mounted| mounted.has(UnpackedTree::TREES, name)),
        });
    }
    found.sort_by(|one, other| label_of(one).cmp(&label_of(other)));
    Ok(found)
}

fn label_of(image: &UnpackedImage) -> (Option<&String>, &Digest) {
    (image.record.as_ref().and_then(|record| record.label.as_ref()), &image.digest)
}

/// Counts for each file the names that it has here; then come all its names, and its size.
fn count_names(directory: &Path, names: &mut BTreeMap<u64, (u64, u64, u64)>) -> io::Result<()> {
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = match entries(&directory) {
            // Users may not look into all directories of an image.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => continue,
            entries => entries?,
        };
        for path in entries {
            let found = fs::symlink_metadata(&path)?;
            if found.is_dir() {
                pending.push(path);
            } else if found.is_file() {
                let entry = names.entry(found.ino()).or_insert((0, found.nlink(), found.len()));
                entry.0 += 1;
            }
        }
    }
    Ok(())
}

/// Makes what is missing of a store, where only root can have put something.
fn make(path: &Path) -> Result<()> {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    let there = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    check_trust(there)?;
    missing.reverse();
    for directory in missing {
        make_directory(directory, 0o755)?;
    }
    for (name, mode) in PARTS {
        make_directory(&path.join(name), mode)?;
    }
    check_trust(path)?;
    let found = statvfs(path).map_err(io::Error::from);
    let flags = found.or_failed(|| format!("inspect {}", shown(path)))?.f_flag;
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        let message = format!(
            "{} is on a file system without programs (`noexec`), so nothing in an image would start",
            shown(path)
        );
        let hint = "name another directory with `unpacked-images DIR` in /etc/cabane/mount.policy";
        return Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
    }
    Ok(())
}

/// Whatever the umask of root is, users can reach it as far as the mode says.
fn make_directory(path: &Path, mode: u32) -> Result<()> {
    let outcome = match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        other => other.and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode))),
    };
    outcome.map_err(|error| write_failed(path, error))
}

fn check_trust(path: &Path) -> Result<()> {
    trusted::open_directory(path).map(drop).map_err(|error| {
        let hint = format!("`namei -l {}` shows the owners and modes on the way", shown_word(path));
        Report::new(Kind::BadInput, error).hinted(hint)
    })
}

/// Says that something in the store cannot be written.
pub(crate) fn write_failed(path: &Path, error: io::Error) -> Report {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let hint = "`cabane image unpack --remove --unused` removes images that no process uses; \
                `unpacked-images DIR` in /etc/cabane/mount.policy names another directory";
    let message = format!("cannot write {}", shown(path));
    Report::caused(Kind::Failure, message, error).hinted(is_full.then(|| hint.to_owned()))
}

/// Removes a file, or a directory with all that is in it.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}
