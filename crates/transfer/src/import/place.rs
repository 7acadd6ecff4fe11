// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The place where an image is made of a container image: its name, and what is in it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use cabane_container::{CONVERTER, Platform};
use cabane_label::Digest;
use cabane_registry::sum;
use cabane_report::{IoContext, Result};
use cabane_repository::{Claim, Incoming, Repository};
use cabane_site::Context;
use cabane_site::env_vars;
use cabane_site::settings::find_program;

/// How often we look whether another process is done.
const PAUSE: Duration = Duration::from_millis(200);
/// How the names of files begin that are not whole.
pub(crate) const NEW: &str = "new-";

/// Finds a program of squashfs-tools.
pub(crate) fn program(context: &Context, name: &str) -> Result<PathBuf> {
    let path = context.calling.get(OsStr::new(env_vars::PATH));
    let found = find_program(name, path.map(AsRef::as_ref));
    Ok(found.ok_or_else(cabane_container::Error::no_program)?)
}

/// Removes what an import that was killed has left in its place.
pub(crate) fn sweep(place: &Path) -> Result<()> {
    let failed = || format!("tidy up {}", place.display());
    for entry in fs::read_dir(place).or_failed(failed)? {
        let entry = entry.or_failed(failed)?;
        if entry.file_name().to_string_lossy().starts_with(NEW) {
            remove(&entry.path()).or_failed(failed)?;
        }
    }
    Ok(())
}

/// Removes a file or a directory, in which there may be directories that are closed.
fn remove(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return fs::remove_file(path);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    fs::remove_dir(path)
}

/// Takes what is there, or makes it in the place that is named by a key; waits while another
/// process makes it, and says so at first.
pub(crate) fn find_or_make<T>(
    repository: &Repository,
    key: &Digest,
    mut waits: impl FnMut(bool) -> Result<()>,
    mut find: impl FnMut() -> Result<Option<T>>,
    make: impl FnOnce(Incoming) -> Result<T>,
) -> Result<T> {
    let mut queue = repository.queue(key);
    let mut is_first = true;
    loop {
        if let Some(found) = find()? {
            return Ok(found);
        }
        if let Claim::Taken(incoming) = queue.try_take()? {
            // The other process may be done.
            return find()?.map_or_else(|| make(incoming), Ok);
        }
        waits(is_first)?;
        is_first = false;
        sleep(PAUSE);
    }
}

/// Fails if it is to stop.
pub(crate) fn check_interrupt(interrupt: &AtomicBool) -> Result<()> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(cabane_container::Error::Interrupted.into());
    }
    Ok(())
}

/// Names the place where an image is made: two commands that make the same take the same.
pub(crate) fn key_of(identity: &str, platform: &Platform) -> Digest {
    let text = format!("cabane-import {CONVERTER}\n{identity}\n{platform}\n");
    sum::bytes(text.as_bytes())
}
