// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What outlives a start: images that are held for the node, and the files by which
//! processes that share namespaces find each other.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cabane_mount::CACHE_NAMESPACE;
use cabane_sys::namespace::{enter_mounts, is_mount_namespace};

use super::QUICK;
use crate::facts::{Answer, Held, Process, RendezvousPoints};
use crate::probe::within;

/// The root directory of the first process.
const FIRST_ROOT: &str = "/proc/1/root";

/// Counts the images. The namespace in which they are is entered by a child.
pub(crate) fn look_at_held_images(process: &Process) -> Answer<Held> {
    if !process.counts_as_root {
        return Ok(Held::Hidden);
    }
    within(QUICK, || match count() {
        Ok(held) => held,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Held::Nothing,
        Err(error) => Held::Unreadable(error.to_string()),
    })
}

fn count() -> io::Result<Held> {
    let file = match File::open(format!("{FIRST_ROOT}{CACHE_NAMESPACE}")) {
        // In some containers the first process is out of sight.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            File::open(CACHE_NAMESPACE)?
        }
        file => file?,
    };
    if !is_mount_namespace(file.as_fd()) {
        return Ok(Held::Nothing);
    }
    enter_mounts(file.as_fd())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let (mut owners, mut longest) = (Vec::new(), 0);
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        if entry.file_name().as_bytes().starts_with(b".") {
            continue;
        }
        let found = entry.metadata()?;
        owners.push(found.uid());
        let used = u64::try_from(found.mtime()).unwrap_or_default();
        longest = longest.max(now.saturating_sub(used));
    }
    owners.sort_unstable();
    Ok(if owners.is_empty() { Held::Nothing } else { Held::Images { owners, longest } })
}

/// Looks at the directories in which processes of the user find each other.
pub(crate) fn look_at_rendezvous_points(
    directories: &[PathBuf],
    user: u32,
) -> Answer<RendezvousPoints> {
    within(QUICK, || {
        let mut rendezvous_points = RendezvousPoints::default();
        for directory in directories {
            let shown = directory.to_string_lossy().into_owned();
            let is_usable = match fs::symlink_metadata(directory) {
                Ok(found) => {
                    let is_closed = found.mode() & 0o7777 == 0o700;
                    let is_safe = found.is_dir() && found.uid() == user && is_closed;
                    if !is_safe {
                        rendezvous_points.unsafe_places.push(shown.clone());
                    }
                    is_safe
                }
                // It is made when it is needed.
                Err(_) => directory.parent().is_some_and(Path::is_dir),
            };
            if is_usable && rendezvous_points.place.is_none() {
                rendezvous_points.place = Some(shown);
            }
        }
        rendezvous_points
    })
}
