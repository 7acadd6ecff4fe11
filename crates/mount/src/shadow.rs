// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount points that do not exist on the host.
//!
//! A directory cannot be made where the user may not write, nor should a mount
//! leave one behind. So the directory that would hold it is *shadowed*: a file
//! system in memory is put in its place, with every entry of the original bound
//! at the same name, symbolic links copied as links, and the missing directory
//! added. For `/` this makes a private root.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags, openat, readlinkat, statat, statvfs,
    symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_move, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{chdir, chroot, pivot_root};

use crate::Error;

/// The size, in bytes, beyond which nothing more of a text file is taken over.
const MAX_EXTENDED: u64 = 16 << 20;
/// What a text file with more lines is called in memory.
const EXTENDED: &str = "file";

/// What is expected to stand at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
}

/// The file systems in which what is missing is made.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    /// Device numbers of file systems in which directories may be made.
    own: Vec<u64>,
    /// Shadowed directories; they become read-only in the end.
    shadowed: Vec<PathBuf>,
}

impl Shadows {
    /// Makes sure that something can be mounted at `target`.
    pub(crate) fn ensure(&mut self, target: &Path, kind: Kind) -> Result<(), Error> {
        match fs::metadata(target) {
            Ok(found) if found.is_dir() == (kind == Kind::Directory) => return Ok(()),
            Ok(_) => return Err(wrong_kind(target, kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::MountPoint {
                    path: target.to_owned(),
                    source,
                });
            }
        }
        let holder = deepest_existing(target)?;
        if !self.is_own(&holder) {
            self.shadow(&holder)?;
        }
        if target.is_symlink() {
            // It leads nowhere, and what is to be mounted is meant for its name.
            fs::remove_file(target).map_err(|source| Error::MountPoint {
                path: target.to_owned(),
                source,
            })?;
        }
        make(target, kind).map_err(|source| Error::MountPoint {
            path: target.to_owned(),
            source,
        })
    }

    /// Puts a file in memory in the place of one, with these lines and what is in that.
    pub(crate) fn extend(&mut self, path: &Path, lines: &str) -> Result<(), Error> {
        self.ensure(path, Kind::File)?;
        let failed = |what| {
            move |source| Error::Step {
                what,
                path: path.to_owned(),
                source,
            }
        };
        let mut text = lines.as_bytes().to_vec();
        // Whoever made the image may have put a fifo there, for which others would wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let original =
            openat(CWD, path, flags, Mode::empty()).map_err(Error::step("open", path))?;
        File::from(original)
            .take(MAX_EXTENDED)
            .read_to_end(&mut text)
            .map_err(failed("read"))?;
        let cover = memory().map_err(Error::step("make a file system in memory for", path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = openat(&cover, EXTENDED, flags, mode).map_err(Error::step("make", path))?;
        let mut file = File::from(file);
        file.write_all(&text)
            .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
            .map_err(failed("write"))?;
        attach(&clone_tree(&cover, OsStr::new(EXTENDED))?, path)?;
        make_read_only(path)
    }

    /// Makes what is missing in the file system of this directory itself: it is written to
    /// anyhow. A shadow, which is read-only, would take that away from the directory.
    pub(crate) fn make_in(&mut self, directory: &Path) -> Result<(), Error> {
        self.remember(directory)
    }

    /// Covers a directory with an empty one in memory.
    pub(crate) fn hide(&mut self, directory: &Path) -> Result<(), Error> {
        let cover = memory().map_err(Error::step("make a file system in memory for", directory))?;
        attach(&cover, directory)?;
        self.remember(directory)
    }

    /// Makes the shadowed directories read-only: what is written beside the
    /// mount points would be lost without a word.
    pub(crate) fn seal(&self) -> Result<(), Error> {
        for directory in &self.shadowed {
            mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY, c"")
                .map_err(Error::step("make read-only", directory))?;
        }
        Ok(())
    }

    fn remember(&mut self, directory: &Path) -> Result<(), Error> {
        let found = fs::metadata(directory).map_err(|source| Error::MountPoint {
            path: directory.to_owned(),
            source,
        })?;
        self.own.push(found.dev());
        Ok(())
    }

    fn is_own(&self, directory: &Path) -> bool {
        fs::metadata(directory).is_ok_and(|found| self.own.contains(&found.dev()))
    }

    fn shadow(&mut self, directory: &Path) -> Result<(), Error> {
        let entries = entries_of(directory)?;
        let original = openat(
            CWD,
            directory,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(Error::step("open", directory))?;
        let cover = memory().map_err(Error::step("make a file system in memory for", directory))?;
        if directory == Path::new("/") {
            shadow_root(&original, &cover, &entries)?;
        } else {
            attach(&cover, directory)?;
            for name in &entries {
                copy_entry(&original, name, directory)?;
            }
        }
        self.shadowed.push(directory.to_owned());
        self.remember(directory)
    }
}

/// Puts the shadow of `/` together at a scratch place and makes it the root.
fn shadow_root(original: &OwnedFd, cover: &OwnedFd, entries: &[OsString]) -> Result<(), Error> {
    let root = Path::new("/");
    let scratch = scratch_name(original, entries)
        .ok_or_else(|| Error::step("find a directory in", root)(Errno::NOENT))?;
    // Opened before it is covered: a later look-up would find the cover.
    let scratch_tree = clone_tree(original, &scratch)?;
    let place = root.join(&scratch);
    attach(cover, &place)?;
    for name in entries.iter().filter(|name| **name != scratch) {
        copy_entry(original, name, &place)?;
    }
    let target = place.join(&scratch);
    make(&target, Kind::Directory).map_err(|source| Error::Step {
        what: "make",
        path: target.clone(),
        source,
    })?;
    attach(&scratch_tree, &target)?;
    change_root(&place)
}

/// Returns a directory over which something can be attached for a moment.
pub(crate) fn scratch() -> Result<PathBuf, Error> {
    let root = Path::new("/");
    let original = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::step("open", root))?;
    scratch_name(&original, &entries_of(root)?)
        .map(|name| root.join(name))
        .ok_or_else(|| Error::step("find a directory in", root)(Errno::NOENT))
}

fn scratch_name(original: &OwnedFd, entries: &[OsString]) -> Option<OsString> {
    let is_directory = |name: &OsStr| {
        statat(original, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    let preferred = OsString::from("tmp");
    if is_directory(&preferred) {
        return Some(preferred);
    }
    entries.iter().find(|name| is_directory(name)).cloned()
}

pub(crate) fn change_root(place: &Path) -> Result<(), Error> {
    let failed = || Error::step("make the private root of", place);
    chdir(place).map_err(failed())?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH).map_err(failed())?,
        // The root of a diskless node may be the kernel's initial one, which
        // cannot be exchanged, only covered.
        Err(Errno::INVAL) => {
            mount_move(".", "/").map_err(failed())?;
            chroot(".").map_err(failed())?;
        }
        Err(errno) => return Err(failed()(errno)),
    }
    chdir("/").map_err(failed())
}

/// Makes the entry `name` of `original` appear in `directory`.
fn copy_entry(original: &OwnedFd, name: &OsStr, directory: &Path) -> Result<(), Error> {
    let target = directory.join(name);
    let stat = match statat(original, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // Removed since the directory was listed.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(Error::step("look at", &target)(errno)),
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let destination = readlinkat(original, name, Vec::new())
                .map_err(Error::step("read the link", &target))?;
            return symlinkat(destination, CWD, &target).map_err(Error::step("link", &target));
        }
        FileType::Directory => Kind::Directory,
        _ => Kind::File,
    };
    make(&target, kind).map_err(|source| Error::Step {
        what: "make",
        path: target.clone(),
        source,
    })?;
    attach(&clone_tree(original, name)?, &target)
}

fn clone_tree(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Error> {
    open_tree(directory, name, tree_flags()).map_err(Error::step("bind", Path::new(name)))
}

/// Opens a file or directory, with all that is mounted below it, for binding it
/// at another place.
pub(crate) fn open_source(source: &Path) -> Result<OwnedFd, Error> {
    open_tree(CWD, source, tree_flags()).map_err(Error::step("bind", source))
}

fn tree_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_NO_AUTOMOUNT
}

/// Attaches a detached mount at a path.
pub(crate) fn attach(mount: &OwnedFd, target: &Path) -> Result<(), Error> {
    move_mount(
        mount,
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|errno| Error::MountPoint {
        path: target.to_owned(),
        source: errno.into(),
    })
}

/// Makes a bind read-only. In a user namespace the flags the mount already has
/// are locked and must be named again.
pub(crate) fn make_read_only(target: &Path) -> Result<(), Error> {
    let failed = || Error::step("make read-only", target);
    let now = statvfs(target).map_err(failed())?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    let known = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    for (has, keep) in known {
        if now.contains(has) {
            flags |= keep;
        }
    }
    mount_remount(target, flags, c"").map_err(failed())
}

pub(crate) fn memory() -> Result<OwnedFd, Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", "cabane")?;
    fsconfig_set_string(context.as_fd(), "mode", "0755")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn entries_of(directory: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |source| Error::Step {
        what: "list",
        path: directory.to_owned(),
        source,
    };
    fs::read_dir(directory)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(failed))
        .collect()
}

fn deepest_existing(target: &Path) -> Result<PathBuf, Error> {
    let found = target
        .ancestors()
        .skip(1)
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"));
    fs::canonicalize(found).map_err(|source| Error::MountPoint {
        path: target.to_owned(),
        source,
    })
}

/// Makes a directory or a file, and the directories above it. Everybody may look at them,
/// whatever the file mode mask says.
fn make(target: &Path, kind: Kind) -> io::Result<()> {
    let directory = match kind {
        Kind::Directory => Some(target),
        Kind::File => target.parent(),
    };
    let missing = directory.iter().flat_map(|path| path.ancestors());
    let missing: Vec<&Path> = missing.take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        fs::create_dir(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    if kind == Kind::File {
        File::create_new(target)?.set_permissions(Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn wrong_kind(target: &Path, kind: Kind) -> Error {
    let errno = if kind == Kind::Directory {
        Errno::NOTDIR
    } else {
        Errno::ISDIR
    };
    Error::MountPoint {
        path: target.to_owned(),
        source: errno.into(),
    }
}
