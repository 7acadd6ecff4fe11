// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the files of a mounted image to a tree of hard links.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_report::{IoContext, Kind, Report, Result};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fgetxattr, fstat, openat, readlinkat, statat,
};
use rustix::io::Errno;

use crate::objects::{Key, Objects, set_time};
use crate::store::write_failed;

/// Reading, and entering directories.
const READ: u32 = 0o5;
/// What a file keeps of its mode. No one but root may write to it, and no program gets the rights of its
/// owner.
const KEPT: u32 = 0o755;
/// The access control list of a file.
const ACL: &str = "system.posix_acl_access";

/// What was put into a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// An image on its way into a tree.
pub(crate) struct Unpacking<'a> {
    /// The root of the mounted image, which no one can change.
    image: OwnedFd,
    name: &'a str,
    /// An empty directory, root's alone.
    target: &'a Path,
    objects: &'a mut Objects,
    sizes: Sizes,
}

impl<'a> Unpacking<'a> {
    pub(crate) fn new(
        image: OwnedFd,
        name: &'a str,
        target: &'a Path,
        objects: &'a mut Objects,
    ) -> Self {
        Self { image, name, target, objects, sizes: Sizes::default() }
    }

    /// Unpacks all files. `tell` hears of the bytes that are done.
    pub(crate) fn run(mut self, tell: &dyn Fn(u64)) -> Result<Sizes> {
        let mut pending = vec![PathBuf::new()];
        let mut directories = Vec::new();
        while let Some(inside) = pending.pop() {
            let directory = self.open(self.image.as_fd(), &inside, OFlags::DIRECTORY)?;
            let found = fstat(&directory).map_err(|errno| self.unread(&inside, errno))?;
            self.check(&directory, &found, &inside)?;
            let target = self.target.join(&inside);
            if !inside.as_os_str().is_empty() {
                fs::create_dir(&target).map_err(|error| write_failed(&target, error))?;
            }
            directories.push((target, mode_of(&found), time_of(&found)));
            self.entries(directory.as_fd(), &inside, &mut pending)?;
            tell(self.sizes.bytes);
        }
        // What was put into a directory changed its time. Those below come first.
        for (path, mode, time) in directories.into_iter().rev() {
            fs::set_permissions(&path, Permissions::from_mode(mode))
                .and_then(|()| set_time(&path, time))
                .map_err(|error| write_failed(&path, error))?;
        }
        Ok(self.sizes)
    }

    fn entries(
        &mut self,
        directory: BorrowedFd<'_>,
        inside: &Path,
        pending: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let entries = Dir::read_from(directory).map_err(|errno| self.unread(inside, errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| self.unread(inside, errno))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = inside.join(name);
            let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| self.unread(&path, errno))?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => pending.push(path),
                FileType::RegularFile => self.file(directory, name, &path, &found)?,
                FileType::Symlink => self.link(directory, name, &path, &found)?,
                kind => return Err(self.refused(&path, &format!("is {}", name_of(kind)), None)),
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        found: &Stat,
    ) -> Result<()> {
        let file = self.open(directory, Path::new(name), OFlags::empty())?;
        self.check(&file, found, path)?;
        let mut file = File::from(file);
        let (sum, size) = self
            .objects
            .sum(&mut file, None)
            .or_failed(|| format!("read {} in the image {}", shown(path), self.name))?;
        let key = Key::new(sum, size, mode_of(found), time_of(found));
        let target = self.target.join(path);
        self.objects
            .link(&key, &mut file, &target)
            .map_err(|error| write_failed(&target, error))?;
        self.sizes.files = self.sizes.files.saturating_add(1);
        self.sizes.bytes = self.sizes.bytes.saturating_add(size);
        Ok(())
    }

    fn link(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        found: &Stat,
    ) -> Result<()> {
        let leads =
            readlinkat(directory, name, Vec::new()).map_err(|errno| self.unread(path, errno))?;
        let target = self.target.join(path);
        symlink(OsStr::from_bytes(leads.to_bytes()), &target)
            .and_then(|()| set_time(&target, time_of(found)))
            .map_err(|error| write_failed(&target, error))
    }

    fn open(&self, directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let place = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(directory, place, flags, Mode::empty()).map_err(|errno| self.unread(path, errno))
    }

    /// Refuses what fewer people may read than the mode says that stays: its owner becomes root.
    fn check(&self, file: &OwnedFd, found: &Stat, path: &Path) -> Result<()> {
        let (owner, group, others) = (found.st_mode >> 6, found.st_mode >> 3, found.st_mode);
        let only = if found.st_uid != 0 && owner & READ & !others != 0 {
            Some(format!("user {}", found.st_uid))
        } else if found.st_gid != 0 && group & READ & !others != 0 {
            Some(format!("group {}", found.st_gid))
        } else {
            None
        };
        let hint = "pack it with `mksquashfs -all-root`, as `cabane build` does";
        if let Some(only) = only {
            let what = format!("may be read by {only} only, and would belong to root");
            return Err(self.refused(path, &what, Some(hint)));
        }
        match fgetxattr(file, ACL, Vec::<u8>::new().as_mut_slice()) {
            Ok(0) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
            Ok(_) => {
                let what = "has an access control list, which would be lost";
                Err(self.refused(
                    path,
                    what,
                    Some("`setfacl -b` removes it from the files to pack"),
                ))
            }
            Err(errno) => Err(self.unread(path, errno)),
        }
    }

    fn refused(&self, path: &Path, what: &str, hint: Option<&str>) -> Report {
        let (name, path) = (self.name, shown(path));
        let message = format!("cannot unpack the image {name}: /{path} {what}");
        Report::new(Kind::BadInput, message).hinted(hint.map(str::to_owned))
    }

    fn unread(&self, path: &Path, errno: Errno) -> Report {
        let message = format!("cannot read /{} in the image {}", shown(path), self.name);
        Report::caused(Kind::Failure, message, io::Error::from(errno))
    }
}

fn mode_of(found: &Stat) -> u32 {
    found.st_mode & KEPT
}

fn time_of(found: &Stat) -> (i64, i64) {
    (found.st_mtime, i64::try_from(found.st_mtime_nsec).unwrap_or_default())
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::Socket => "a socket",
        FileType::Fifo => "a pipe",
        _ => "no file",
    }
}
