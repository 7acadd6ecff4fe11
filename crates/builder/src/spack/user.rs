// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who the build runs as. Spack asks the user database for a name and stops where there
//! is none, as in containers that are started with any user number.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{getgid, getuid};

use crate::layout::{Inside, Layout};
use crate::{Result, disk};

/// The database of users.
pub(super) const DATABASE: &str = "/etc/passwd";

/// What `getent` answers when no one knows.
const NOT_FOUND: i32 = 2;

/// Returns where the database of a build is, if it has one of its own.
pub(super) fn database(layout: &Layout) -> PathBuf {
    layout.work().join("passwd")
}

/// Writes a database in which the user has a name, where the system's does not tell.
/// Directories of users are searched as well, hence through `getent`.
pub(super) fn write_database(layout: &Layout) -> Result<()> {
    let path = database(layout);
    disk::remove(&path)?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let answer = Command::new("getent")
        .args(["passwd", &user.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !answer.is_ok_and(|status| status.code() == Some(NOT_FOUND)) {
        return Ok(());
    }
    let system = Path::new(DATABASE);
    let mut text = disk::read_text(system)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text += &format!("builder:x:{user}:{group}::{}:/bin/sh\n", Inside::HOME);
    disk::write(&path, text.as_bytes())
}
