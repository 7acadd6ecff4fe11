// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files in a mount that is attached nowhere.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Opens a file inside a detached mount; no link leads out of it.
///
/// # Errors
///
/// Those of `openat2(2)`.
pub fn open_in_image(mount: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat2(mount, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    Ok(File::from(fd))
}
