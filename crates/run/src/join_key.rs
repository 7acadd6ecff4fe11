// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What makes two environments the same.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;

use cabane_label::escape;
use cabane_mount::{MountPlan, Operation};
use rustix::fs::fstat;
use rustix::process::{getegid, geteuid};
use sha2::{Digest, Sha256};

use crate::process::NamespaceNumbers;

/// A digest of everything in which two environments can differ: the files as they
/// are now, the places, whose they are, and where they are entered from.
pub(crate) fn digest_of(plan: &MountPlan) -> io::Result<String> {
    let mut hash = Sha256::new();
    let outside = NamespaceNumbers::own()?;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    hash.update(format!("{outside:?} {user} {group}\n"));
    for operation in &plan.operations {
        match operation {
            Operation::Root { image, layer } => {
                let found = fstat(&image.file)?;
                hash.update(format!("root {} {layer:?} ", identity(&found)));
            }
            Operation::Image { image, .. } => {
                let found = fstat(&image.file)?;
                hash.update(format!("image {} ", identity(&found)));
            }
            Operation::Extend { lines, .. } => hash.update(format!("lines {lines} ")),
            Operation::Bind { source, read_only, .. } => {
                let found = rustix::fs::stat(source)?;
                let (device, inode) = (found.st_dev, found.st_ino);
                hash.update(format!("bind {device} {inode} {read_only} "));
            }
            Operation::Hide { .. } => hash.update("hide "),
            Operation::Empty { .. } => hash.update("empty "),
        }
        hash.update(operation.target().as_os_str().as_bytes());
        hash.update([0]);
    }
    Ok(hex(&hash.finalize()))
}

fn identity(found: &rustix::fs::Stat) -> String {
    format!(
        "{} {} {} {}.{} {}.{}",
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime,
        found.st_mtime_nsec,
        found.st_ctime,
        found.st_ctime_nsec
    )
}

/// Names the images of a plan, in one line.
pub(crate) fn images_of(plan: &MountPlan) -> String {
    let images = plan.operations.iter().filter_map(|operation| {
        let file = operation.image()?.path.display();
        let place = operation.target().display();
        Some(escape(&format!("{file} at {place}")).into_owned())
    });
    images.collect::<Vec<_>>().join(", ")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use cabane_mount::{Backend, FusePrograms, ImageFile, ImageFormat, Way};

    use super::*;

    fn plan(file: &Path, mount_point: &str) -> MountPlan {
        MountPlan {
            backend: Backend::UserNamespace,
            fuse: FusePrograms::default(),
            operations: vec![Operation::Image {
                image: ImageFile {
                    file: File::open(file).unwrap(),
                    path: file.to_owned(),
                    format: ImageFormat::Squashfs,
                    verity: None,
                },
                way: Way::Fuse,
                mount_point: mount_point.into(),
            }],
        }
    }

    #[test]
    fn an_image_that_was_written_to_is_another_environment() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("image");
        fs::write(&file, "before").unwrap();
        let before = digest_of(&plan(&file, "/a")).unwrap();
        fs::write(&file, "after it").unwrap();
        assert_ne!(digest_of(&plan(&file, "/a")).unwrap(), before);
    }

    #[test]
    fn another_mount_point_is_another_environment() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("image");
        fs::write(&file, "image").unwrap();
        let digest = |mount_point| digest_of(&plan(&file, mount_point)).unwrap();
        assert!(digest("/a") != digest("/b") && digest("/a") == digest("/a"));
    }
}
