// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files that are read up to a limit, or written at once, and what is wrong with them.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report};

/// Reads to the end; `None` if there is more than the limit.
pub(crate) fn read_up_to(limit: u64, reader: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// Writes a file at once or not at all. Only its owner can read it.
pub fn write_at_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, 0o600)
}

/// Writes a file at once or not at all. The umask decides which users can read it.
pub fn write_at_once_with_umask(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, 0o666)
}

fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mode = Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Returns a function that turns an answer of the file system into an error about a file, whose
/// path may follow what it is: `the key `.
pub(crate) fn unreadable<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Report + 'a {
    move |source| {
        let path = shown(path);
        let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
        Report::caused(Kind::Failure, format!("cannot read {what}{path}"), source)
            .hinted(is_denied.then(|| format!("`ls -ld {path}` shows who may")))
    }
}

/// That a file with a secret is not kept well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBadly {
    /// What is wrong.
    pub warning: String,
    /// What the user may type about it.
    pub hint: String,
}
