// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files of a mounted image, copied to where a tool makes a package of them.
//!
//! What gives rights in an image does not: so set-user-ID bits are not copied, and nobody but root may
//! change a file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use cabane_mount::open_in_image;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::survey::{Entries, Entry, EntryKind, Wanted};

const MODE: u32 = 0o755;

/// Copies files below `tree`, which is made: each at its absolute path.
///
/// # Errors
///
/// What cannot be read or written, with its name.
pub(crate) fn copy(
    mount: &OwnedFd,
    entries: &Entries,
    tree: &Path,
    wanted: &Wanted<'_>,
) -> io::Result<()> {
    let root = below(tree, wanted.mount);
    fs::create_dir_all(&root)?;
    // A further name of a file comes after all files.
    let is_name = |entry: &Entry| matches!(entry.kind, EntryKind::Name(_));
    let names = entries.iter().filter(|(_, entry)| is_name(entry));
    for (path, entry) in entries.iter().filter(|(_, entry)| !is_name(entry)).chain(names) {
        let target = root.join(path);
        let made = match &entry.kind {
            EntryKind::Directory => fs::create_dir(&target),
            EntryKind::File => open_in_image(mount.as_fd(), path).and_then(|mut file| {
                let mut copy = File::create_new(&target)?;
                io::copy(&mut file, &mut copy)?;
                copy.set_permissions(fs::Permissions::from_mode(entry.mode & MODE))
            }),
            EntryKind::Name(first) => fs::hard_link(root.join(first), &target),
            EntryKind::Link(to) => symlink(to, &target),
        };
        let made = made.and_then(|()| match entry.kind {
            EntryKind::Directory => Ok(()),
            _ => set_time(&target, entry.time),
        });
        made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    // From below, since what is added to a directory changes its time.
    for (path, entry) in entries.iter().rev() {
        if matches!(entry.kind, EntryKind::Directory) {
            let target = root.join(path);
            set_time(&target, entry.time)?;
            // Root can use a directory that is closed to its owner, and this user must.
            fs::set_permissions(&target, fs::Permissions::from_mode(entry.mode & MODE | 0o700))?;
        }
    }
    Ok(())
}

/// Returns where an absolute path is below a directory.
pub(crate) fn below(tree: &Path, path: &Path) -> std::path::PathBuf {
    tree.join(path.strip_prefix("/").unwrap_or(path))
}

/// Gives a file or link its time, in seconds since 1970.
pub(crate) fn set_time(path: &Path, seconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
