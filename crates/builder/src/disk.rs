// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files and directories of the build itself: whole or not there.

use std::fs::{self, DirEntry, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{BuildError, Result};

/// Reads a file, but not more of it than `limit` bytes.
pub(crate) fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(BuildError::file("read", path))
}

/// Reads a whole file that is text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(BuildError::file("read", path))
}

/// Lists a directory in order to do something; `what` is for the error.
pub(crate) fn entries(what: &'static str, directory: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect);
    entries.map_err(BuildError::file(what, directory))
}

/// Writes a file, and makes the directories above it unless they exist.
pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    make_directory(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, content).map_err(BuildError::file("write", path))
}

/// Writes a program.
pub(crate) fn put_executable(path: &Path, content: &str) -> Result<()> {
    put(path, content)?;
    let executable = Permissions::from_mode(0o755);
    fs::set_permissions(path, executable).map_err(BuildError::file("write", path))
}

/// Makes a directory and those above it, unless they exist.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(BuildError::file("make the directory", path))
}

/// Makes a directory that is empty: what was there is removed.
pub(crate) fn make_empty(path: &Path) -> Result<()> {
    remove(path)?;
    make_directory(path)
}

/// Distinguishes the files that this process writes.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Writes a file so that it has its whole content or does not exist, even after
/// a crash.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let failed = || BuildError::file("write", path);
    // Builds that share a cache may write the same file.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let write_new = || {
        let mut file = create_new(&new)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write_new().map_err(failed())?;
    rename(&new, path)
}

/// Writes a file that is there as [`write()`] does; it keeps its permissions.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let failed = || BuildError::file("write", path);
    let permissions = fs::metadata(path).map_err(failed())?.permissions();
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let write_new = || {
        let mut file = create_new(&new)?;
        file.write_all(content)?;
        file.set_permissions(permissions)?;
        file.sync_all()
    };
    write_new().map_err(failed())?;
    rename(&new, path)
}

/// Makes a file. What has its name, which can be a link to elsewhere, is removed before.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

/// Reads a document; what cannot be read, or is longer than `limit` bytes, is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, limit: u64) -> Option<T> {
    serde_json::from_slice(&read_start(path, limit).ok()?).ok()
}

/// Writes a document as [`write()`] does.
pub(crate) fn write_json(path: &Path, document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(document).map_err(BuildError::file("write", path))?;
    write(path, &text)
}

/// Gives a file its name for good.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let failed = || BuildError::file("write", to);
    fs::rename(from, to).map_err(failed())?;
    let parent = to.parent().unwrap_or(Path::new("/"));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(failed())
}

/// Removes a file or a whole directory, if it exists, also where it is write-protected.
///
/// # Errors
///
/// What could not be removed.
pub fn remove(path: &Path) -> Result<()> {
    try_remove(path).map_err(BuildError::file("remove", path))
}

/// As [`remove`], with the answer of the system.
pub(crate) fn try_remove(path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    if found.is_dir() {
        fs::remove_dir_all(path).or_else(|_| remove_stubborn(path))
    } else {
        fs::remove_file(path)
    }
}

/// Packages may hold directories that no one may write to; and what is left of a
/// build that was killed may write for another moment.
fn remove_stubborn(path: &Path) -> io::Result<()> {
    for _ in 0..10 {
        make_writable(path);
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
    fs::remove_dir_all(path)
}

fn make_writable(directory: &Path) {
    // What cannot be changed makes the removal fail, which is reported.
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}
