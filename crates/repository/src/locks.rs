// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How far the locks of a file system reach.
//!
//! Parallel file systems can be mounted so that a lock is seen on its own host only, and then
//! they grant the same lock to several hosts without a word. A download must not be shared
//! between hosts there. What is not known for certain counts as such.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::disk;

/// Who sees a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everyone who sees the file.
    AllHosts,
    /// The processes of one kernel.
    ThisHost,
    /// There are no locks.
    Nowhere,
}

/// File systems that only one host has mounted.
const LOCAL: &[&str] =
    &["ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay"];

impl Reach {
    /// Tells how far the locks of files in a directory reach.
    pub(crate) fn of(directory: &Path) -> Self {
        match disk::file_system(directory) {
            Ok(kind) => Self::on(&kind, &mount_options(directory).unwrap_or_default()),
            Err(_) => Self::ThisHost,
        }
    }

    fn on(kind: &str, options: &str) -> Self {
        let has = |wanted: &[&str]| options.split(',').any(|one| wanted.contains(&one));
        match kind {
            "nfs" if options.is_empty() => Self::ThisHost,
            "nfs" if has(&["nolock", "local_lock=all", "local_lock=flock"]) => Self::ThisHost,
            "nfs" | "gpfs" | "ceph" => Self::AllHosts,
            kind if is_local(kind) => Self::AllHosts,
            "lustre" if has(&["flock"]) => Self::AllHosts,
            "lustre" if has(&["noflock"]) => Self::Nowhere,
            _ => Self::ThisHost,
        }
    }
}

/// Returns whether only one host has file systems of this kind mounted.
pub(crate) fn is_local(kind: &str) -> bool {
    LOCAL.contains(&kind)
}

/// Returns the options of the mount on which a directory lies, those of the file system too.
fn mount_options(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    options_of(&mounts, &format!("{major}:{minor}"))
}

fn options_of(mounts: &str, device: &str) -> Option<String> {
    // id, parent, device, root, place, options, … - type, source, options of the file system
    let mut lines = mounts.lines().filter_map(|line| line.split_once(" - "));
    lines.find_map(|(mount, file_system)| {
        let mut fields = mount.split(' ');
        (fields.nth(2)? == device).then_some(())?;
        Some(format!("{},{}", fields.nth(2)?, file_system.splitn(3, ' ').nth(2)?))
    })
}

/// Returns what tells this kernel from any other, as long as it runs.
pub(crate) fn kernel_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id: String = id.trim().chars().filter(|one| *one != '-').collect();
    is_kernel_id(&id).then_some(id)
}

pub(crate) fn is_kernel_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_host_has_mounted_has_locks_for_everybody() {
        assert_eq!(Reach::on("xfs", "rw"), Reach::AllHosts);
    }

    #[test]
    fn nfs_has_locks_for_everybody_unless_it_is_mounted_otherwise() {
        let reach = |options| Reach::on("nfs", options);
        assert_eq!(
            [
                reach("rw,vers=4.2,local_lock=none"),
                reach("rw,vers=3,nolock"),
                reach("rw,local_lock=all"),
                reach("")
            ],
            [Reach::AllHosts, Reach::ThisHost, Reach::ThisHost, Reach::ThisHost]
        );
    }

    #[test]
    fn lustre_has_the_locks_that_it_was_mounted_with() {
        let reach = |options| Reach::on("lustre", options);
        assert_eq!(
            [reach("rw,flock,lazystatfs"), reach("rw,localflock"), reach("rw,noflock")],
            [Reach::AllHosts, Reach::ThisHost, Reach::Nowhere]
        );
    }

    #[test]
    fn of_an_unknown_file_system_little_is_expected() {
        assert_eq!(Reach::on("beegfs", "rw"), Reach::ThisHost);
    }

    #[test]
    fn the_options_of_mount_and_file_system_are_found_by_the_device() {
        let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 22 0:52 / /project rw,nosuid - nfs server:/project rw,vers=3,nolock
";
        assert_eq!(options_of(mounts, "0:52").as_deref(), Some("rw,nosuid,rw,vers=3,nolock"));
    }

    #[test]
    fn this_kernel_is_known() {
        assert!(kernel_id().is_some());
    }
}
