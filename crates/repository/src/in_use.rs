// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether an image is in use on this host, and when it was read last.
//!
//! On local file systems the kernel knows who has a file open, be it below a mount, and tells
//! its owner. Elsewhere the processes are inspected: which files they have open, and which images
//! their variables say are mounted around them; of other users only root sees these. What
//! other hosts do shows in the time of the last access, which costs a start nothing.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::Digest;
use cabane_process::lease;
use jiff::Timestamp;

use crate::disk;
use crate::layout::Layout;
use crate::locks::is_local;

/// Looks at the images of a repository, as they are while it exists.
pub(crate) struct Observer<'a> {
    layout: &'a Layout,
    has_leases: bool,
    processes: OnceCell<Processes>,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        let kind = disk::file_system(&layout.root);
        Self {
            layout,
            has_leases: kind.is_ok_and(|kind| is_local(&kind)),
            processes: OnceCell::new(),
        }
    }

    /// Returns whether an image is open or mounted on this host, as far as this user may know.
    pub(crate) fn is_in_use(&self, digest: &Digest) -> io::Result<bool> {
        let file = match disk::open(&self.layout.image(digest)) {
            Err(_) if self.layout.is_deduplicated(digest) => return Ok(false),
            opened => opened?,
        };
        if self.has_leases
            && let Ok(answer) = lease::is_open_elsewhere(&file)
        {
            return Ok(answer);
        }
        let found = file.metadata()?;
        drop(file);
        let processes = self.processes.get_or_init(Processes::inspect);
        Ok(processes.files.contains(&(found.dev(), found.ino()))
            || processes.images.contains(digest))
    }
}

/// Returns when an image was read last. Of a deduplicated image, its list of parts has this time.
pub(crate) fn last_read(layout: &Layout, digest: &Digest) -> io::Result<Timestamp> {
    let (seconds, nanoseconds) = match fs::metadata(layout.image(digest)) {
        Ok(found) => (found.atime(), found.atime_nsec()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parts = fs::metadata(layout.parts(digest))?;
            (parts.mtime(), parts.mtime_nsec())
        }
        Err(error) => return Err(error),
    };
    Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or(0)).map_err(io::Error::other)
}

/// What the processes of this host have open, and what is mounted around them.
#[derive(Default)]
struct Processes {
    files: BTreeSet<(u64, u64)>,
    images: BTreeSet<Digest>,
}

/// The variable that tells which images are mounted: `FILE:MOUNT_POINT,…`.
const MOUNTED: &[u8] = b"UENV_MOUNT_LIST=";

impl Processes {
    fn inspect() -> Self {
        let mut found = Self::default();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if process.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit) {
                found.open_files(&process.path().join("fd"));
                let variables = fs::read(process.path().join("environ"));
                found.variables(&variables.unwrap_or_default());
            }
        }
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let file = fs::read(device.path().join("loop/backing_file")).unwrap_or_default();
            found.images.extend(image_at(file.trim_ascii_end()));
        }
        found
    }

    fn open_files(&mut self, descriptors: &Path) {
        for descriptor in fs::read_dir(descriptors).into_iter().flatten().flatten() {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            // No other file is touched: one of a server that is away would be waited for.
            let target = target.into_os_string().into_vec();
            if target.ends_with(b"/image") || target.ends_with(b"/image (deleted)") {
                let file = fs::metadata(descriptor.path());
                self.files.extend(file.map(|file| (file.dev(), file.ino())));
            }
        }
    }

    fn variables(&mut self, variables: &[u8]) {
        let mut variables = variables.split(|byte| *byte == 0);
        let Some(list) = variables.find_map(|one| one.strip_prefix(MOUNTED)) else {
            return;
        };
        for mount in list.split(|byte| *byte == b',') {
            let file = mount.split(|byte| *byte == b':').next().unwrap_or_default();
            self.images.extend(image_at(file));
        }
    }
}

/// Takes the digest out of the path of an image in a repository, whichever that is.
fn image_at(path: &[u8]) -> Option<Digest> {
    let path = std::str::from_utf8(path).ok()?;
    let directory = path.strip_suffix("/image")?;
    directory.rsplit_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_a_process_show_what_is_mounted_around_it() {
        let digests = ["a", "b"].map(|digit| digit.repeat(64));
        let [one, two] = &digests;
        let list = format!("/x/images/{one}/image:/user-tools,/x/images/{two}/image:/opt/y");
        let variables = format!("A=b\0UENV_MOUNT_LIST={list}\0PATH=/bin\0");
        let mut processes = Processes::default();
        processes.variables(variables.as_bytes());
        let digests = digests.map(|digest| digest.parse().unwrap());
        assert_eq!(processes.images, digests.into());
    }

    #[test]
    fn a_file_that_this_process_has_open_is_found_among_all() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("image");
        fs::write(&path, "").unwrap();
        let file = fs::File::open(path).unwrap();
        let found = file.metadata().unwrap();
        let processes = Processes::inspect();
        assert!(processes.files.contains(&(found.dev(), found.ino())));
    }
}
