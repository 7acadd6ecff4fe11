// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is mounted where, as the kernel tells this process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mountinfo::unescaped;

/// The mounts that a process sees, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    mounts: Vec<(PathBuf, String)>,
}

impl Mounts {
    /// Reads the mounts of this process; none where the kernel does not tell them.
    pub(super) fn read() -> Self {
        let bytes = fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let (fields, after) = line.split_once(" - ")?;
            let mount_point = unescaped(fields.split(' ').nth(4)?.as_bytes());
            Some((mount_point, after.split(' ').next()?.to_owned()))
        };
        Self { mounts: text.lines().filter_map(mount).collect() }
    }

    /// Whether something is mounted at exactly this path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.mounts.iter().any(|(mount_point, _)| mount_point == path)
    }

    /// Returns the mount point of a path without links, and its file system.
    pub(super) fn of(&self, path: &Path) -> Option<(&Path, &str)> {
        let above = self.mounts.iter().filter(|(mount, _)| path.starts_with(mount));
        // Of two at one place the later one covers the earlier.
        let deepest = above.max_by_key(|(mount, _)| mount.components().count())?;
        Some((&deepest.0, &deepest.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
        36 22 0:1 / /user\\040environment ro - squashfs /dev/loop0 ro\n\
        37 22 0:1 / /opt ro - overlay none ro\n38 22 0:1 / /opt ro - erofs none ro\n";

    #[test]
    fn a_path_belongs_to_the_deepest_mount_above_it() {
        let mounts = Mounts::parse(TEXT);
        let of = |path: &str| mounts.of(Path::new(path)).unwrap().1;
        assert_eq!(
            [of("/user environment/bin/x"), of("/opt"), of("/option")],
            ["squashfs", "erofs", "ext4"]
        );
    }
}
