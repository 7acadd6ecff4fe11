// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looking at a tree before it is packed: what would be lost, and how many files
//! the image must hold.
//!
//! The packing programs leave out what they cannot read and call it a success, so
//! nothing of that is left to them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cabane_label::{Digest, shown};
use cabane_report::{Kind, Report};
use rustix::fs::{Access, access};

use crate::fingerprint::Hash;
use crate::{BuildError, Result};

/// How many offending files are named.
const NAMED: usize = 10;
/// What helps where something changes the tree.
pub(super) const CHANGING: &str = "build again while no process changes the tree";

/// What was found in a tree.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    /// Files and directories, the root as well; every file once, whatever the
    /// number of its names.
    pub(crate) inodes: u64,
    /// Further names of symbolic links: squashfs-tools counts some of them.
    pub(crate) further_links: u64,
    /// The size of all content.
    pub(crate) bytes: u64,
    /// Changes when anything in the tree does.
    pub(crate) fingerprint: Digest,
    /// Files that others than the owner may not use.
    private: Some10,
    root: PathBuf,
}

impl Census {
    /// Fails if there are files that only their owner may use.
    pub(crate) fn check_public(&self) -> Result<()> {
        let problem = "in the image could not be read by everybody";
        self.private.refuse(["file", "files"], problem, || {
            format!(
                "try `chmod -R a+rX {}`, or build a squashfs image, in which everybody may read",
                shown(&self.root)
            )
        })
    }
}

/// Looks at everything in a tree, but for the entry `without` of its root.
pub(crate) fn scan(root: &Path, without: Option<&str>) -> Result<Census> {
    let mut scan = Scan {
        root,
        hash: Hash::new(),
        inodes: 1,
        further_links: 0,
        bytes: 0,
        linked: HashSet::new(),
        unreadable: Some10::default(),
        special: Some10::default(),
        private: Some10::default(),
    };
    let mut pending = Vec::new();
    scan.directory(root, without.map(OsStr::new), &mut pending)?;
    while let Some(directory) = pending.pop() {
        scan.directory(&directory, None, &mut pending)?;
    }
    scan.finish()
}

struct Scan<'a> {
    root: &'a Path,
    hash: Hash,
    inodes: u64,
    further_links: u64,
    bytes: u64,
    linked: HashSet<(u64, u64)>,
    unreadable: Some10,
    special: Some10,
    private: Some10,
}

impl Scan<'_> {
    fn directory(
        &mut self,
        directory: &Path,
        without: Option<&OsStr>,
        pending: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let mut entries = match entries(directory) {
            Ok(entries) => entries,
            Err(error) => return self.failed(directory, error),
        };
        entries.retain(|path| without.is_none() || path.file_name() != without);
        // They differ in their last part only, so this is also the order of paths.
        entries.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        for path in entries {
            match path.symlink_metadata() {
                Ok(found) => {
                    self.entry(&path, &found);
                    if found.is_dir() {
                        pending.push(path);
                    }
                }
                // Without the right to search, a directory lists names and no more.
                Err(error) => self.failed(&path, error)?,
            }
        }
        Ok(())
    }

    /// What cannot be read is refused in the end, and what is gone at once.
    fn failed(&mut self, path: &Path, error: io::Error) -> Result<()> {
        match error.kind() {
            io::ErrorKind::PermissionDenied => self.unreadable.push(|| shown(path)),
            io::ErrorKind::NotFound => return Err(changed(path)),
            _ => return Err(BuildError::file("look at", path)(error)),
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, found: &Metadata) {
        self.identify(path, found);
        let first_name =
            found.is_dir() || found.nlink() < 2 || self.linked.insert((found.dev(), found.ino()));
        if !first_name {
            self.further_links += u64::from(found.is_symlink());
            return;
        }
        self.inodes += 1;
        if let Some(kind) = special(found.file_type()) {
            self.special.push(|| format!("{} ({kind})", shown(path)));
        }
        if found.is_file() {
            self.bytes += found.len();
            if access(path, Access::READ_OK).is_err() {
                self.unreadable.push(|| shown(path));
            }
        }
        if is_private(found) {
            self.private.push(|| shown(path));
        }
    }

    fn identify(&mut self, path: &Path, found: &Metadata) {
        let relative = path.strip_prefix(self.root).unwrap_or(path);
        self.hash.bytes(relative.as_os_str().as_bytes());
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        self.hash.number(found.mode().into());
        self.hash.number(found.ino());
        self.hash.number(found.len());
        for time in times {
            self.hash.number(time.cast_unsigned());
        }
    }

    fn finish(self) -> Result<Census> {
        let names = ["file or directory", "files or directories"];
        self.unreadable.refuse(names, "cannot be read", || {
            format!("try `chmod -R u+rX {}`", shown(self.root))
        })?;
        let names = ["special file", "special files"];
        self.special
            .refuse(names, "cannot be packed", || "remove them from the tree".to_owned())?;
        Ok(Census {
            inodes: self.inodes,
            further_links: self.further_links,
            bytes: self.bytes,
            fingerprint: self.hash.finish(),
            private: self.private,
            root: self.root.to_owned(),
        })
    }
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// Says that a file changed or vanished while it was looked at.
pub(crate) fn changed(path: &Path) -> BuildError {
    let message = format!("{} changed while the tree was being packed", shown(path));
    BuildError::refused(message, CHANGING)
}

fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_socket() {
        Some("a socket")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("a device")
    } else {
        None
    }
}

/// Tells whether others may not do what the owner may: read, enter, execute.
fn is_private(found: &Metadata) -> bool {
    let mode = found.mode();
    let wanted = if found.is_dir() || mode & 0o111 != 0 { 0o005 } else { 0o004 };
    !found.is_symlink() && mode & wanted != wanted
}

/// How many there were, and the first ten.
#[derive(Clone, Debug, Default)]
struct Some10 {
    count: usize,
    first: Vec<String>,
}

impl Some10 {
    fn push(&mut self, one: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(one());
        }
    }

    /// Fails if there are any; `names` are for one and for several.
    fn refuse(
        &self,
        [one, several]: [&str; 2],
        problem: &str,
        hint: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let name = if self.count == 1 { one } else { several };
        let message = format!("{} {name} {problem}: {}", self.count, self.first.join(", "));
        Err(Report::new(Kind::Build, message).hinted(hint()).into())
    }
}
