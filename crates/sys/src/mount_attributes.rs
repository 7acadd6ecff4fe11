// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Attributes of mounts: `mount_setattr(2)`, since Linux 5.12.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::io::Errno;

use crate::raw::syscall;

/// The same number for all architectures.
const SYS_MOUNT_SETATTR: i64 = 442;
const AT_EMPTY_PATH: u32 = 0x1000;
const AT_RECURSIVE: u32 = 0x8000;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;

/// `struct mount_attr` of `linux/mount.h`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes a mount and all mounts below it read-only; the descriptor is of its root.
///
/// # Errors
///
/// `ENOSYS` before Linux 5.12, `EPERM` without `CAP_SYS_ADMIN`.
pub fn make_tree_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    set(mount.as_raw_fd(), AT_EMPTY_PATH | AT_RECURSIVE, MOUNT_ATTR_RDONLY)
}

/// Makes one mount read-only, without set-uid programs and devices; the descriptor is of its root.
///
/// # Errors
///
/// As [`make_tree_read_only`].
pub fn make_plain(mount: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    set(mount.as_raw_fd(), AT_EMPTY_PATH, attributes)
}

/// Tells whether this kernel has the call.
#[must_use]
pub fn are_in_kernel() -> bool {
    // There is no such descriptor: a kernel that has the call says so, or that it takes rights.
    let answer = set(-1, AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
    answer.is_err_and(|error| error.raw_os_error() != Some(Errno::NOSYS.raw_os_error()))
}

fn set(mount: RawFd, flags: u32, attributes: u64) -> io::Result<()> {
    let attributes = MountAttr { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    let path = c"";
    // SAFETY: the kernel reads a text that ends and a structure of the given size; both
    // live until it returns.
    let result = unsafe {
        syscall(
            SYS_MOUNT_SETATTR,
            i64::from(mount),
            path.as_ptr(),
            i64::from(flags),
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
