// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the repository asks of a file system.
//!
//! Modification times decide nothing here: between hosts they are not comparable. On network
//! file systems a handle may go stale while it is used; such reads are tried again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::iter;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, RawDir, StatVfsMountFlags, Timespec, Timestamps, UTIME_NOW,
};
use rustix::io::Errno;

const STALE_RETRIES: usize = 3;

/// Repeats a read whose file handle went stale, as happens on NFS when another host renames.
pub(crate) fn retry_stale<T>(mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..STALE_RETRIES {
        match action() {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {}
            outcome => return outcome,
        }
    }
    action()
}

/// The names of 30,000 refs. Memory that is not needed is not touched.
const NAMES_BUFFER: usize = 4 * 1024 * 1024;

/// The names in a directory, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

/// Returns the names in a directory. Names that are not UTF-8 are left out: none is ours.
///
/// The buffer is so large that one system call suffices. On local file systems the result is
/// then the directory at one instant: nothing is missed that was renamed in the meantime.
pub(crate) fn names(directory: &Path) -> io::Result<Names> {
    retry_stale(|| {
        let directory = File::open(directory)?;
        let mut buffer = Vec::with_capacity(NAMES_BUFFER);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        let mut names = Names::default();
        while let Some(entry) = entries.next() {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name),
            }
        }
        Ok(names)
    })
}

/// Returns `None` for what is not there.
pub(crate) fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Creates a directory unless it is there.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

/// Opens a file for reading. A named pipe is not waited for, as it would be otherwise.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    retry_stale(|| {
        let file = open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or(0));
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {limit} bytes"),
            ));
        }
        Ok(bytes)
    })
}

/// Creates a file that must not exist, with the mode that the umask leaves.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Writes a new file and waits until it is on disk.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Waits until the names in a directory are on disk.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // Some network file systems cannot do it; there a rename is on the server anyway.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

/// Makes an NFS client forget what it knows about a directory that other hosts change.
///
/// A client may answer from its cache for half a minute, unless it changes the directory itself:
/// then it compares what the server says. So the times are set, which needs no more than the
/// permission to write. Elsewhere this does nothing of interest, and failure is no error.
pub(crate) fn freshen(directory: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    let _ = rustix::fs::utimensat(CWD, directory, &times, AtFlags::empty());
}

/// Returns the number of bytes that an ordinary user may still write.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let figures = rustix::fs::statvfs(path)?;
    Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
}

/// Returns whether the file system notes when a file is read, as this host has it mounted.
pub(crate) fn notes_access(path: &Path) -> bool {
    let figures = rustix::fs::statvfs(path);
    figures.is_ok_and(|figures| !figures.f_flag.contains(StatVfsMountFlags::NOATIME))
}

/// Returns whether this process may change a directory.
pub(crate) fn is_writable(directory: &Path) -> bool {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(CWD, directory, wanted, AtFlags::EACCESS).is_ok()
}

/// Returns whether this process may write a file.
pub(crate) fn is_writable_file(file: &Path) -> bool {
    rustix::fs::accessat(CWD, file, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Removes a file or a whole directory; it is no error when there is none.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    if_there(removed).map(drop)
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        // A metadata directory that came without write permission, or two sweepers at once.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(directory);
            fs::remove_dir_all(directory)
        }
        outcome => outcome,
    }
}

fn make_writable(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// Returns whether an error says that the destination of a rename is taken.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Returns whether an error of a link or clone only says that it cannot be done here.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(
            Errno::XDEV
                | Errno::OPNOTSUPP
                | Errno::NOTTY
                | Errno::NOSYS
                | Errno::INVAL
                | Errno::PERM
                | Errno::ACCESS
                | Errno::MLINK
        )
    )
}

/// What the numbers in `statfs` mean, for the file systems on which repositories live.
const TYPES: &[(u64, &str)] = &[
    (0x0000_ef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x794c_7630, "overlay"),
    (0x0000_6969, "nfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x00c3_6400, "ceph"),
    (0x7461_6360, "afs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
];

/// Returns the name of the file system on which a path lies, or its number if it is a rare one.
pub(crate) fn file_system(path: &Path) -> io::Result<String> {
    let figures = rustix::fs::statfs(path)?;
    // The field is signed on some machines; the numbers have 32 bits.
    #[expect(clippy::cast_sign_loss, reason = "the numbers are bit patterns")]
    let number = figures.f_type as u64 & 0xffff_ffff;
    let known = TYPES.iter().find(|(magic, _)| *magic == number);
    Ok(known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_is_tried_again() {
        let mut calls = 0;
        let outcome = retry_stale(|| {
            calls += 1;
            if calls < 3 { Err(Errno::STALE.into()) } else { Ok(calls) }
        });
        assert_eq!(outcome.unwrap(), 3);
    }

    #[test]
    fn a_handle_that_stays_stale_is_an_error() {
        let outcome: io::Result<()> = retry_stale(|| Err(Errno::STALE.into()));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::StaleNetworkFileHandle);
    }

    #[test]
    fn a_directory_without_write_permission_can_be_removed() {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("a/b");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        remove_all(&place.path().join("a")).unwrap();
        assert!(!place.path().join("a").exists());
    }

    #[test]
    fn a_named_pipe_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read(&pipe, 10).unwrap_err().to_string(), "it is not a regular file");
    }
}
