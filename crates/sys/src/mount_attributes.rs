// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Attributes of a whole tree of mounts: `mount_setattr(2)`, since Linux 5.12.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::raw::syscall;

/// The same number for all architectures.
const SYS_MOUNT_SETATTR: i64 = 442;
const AT_EMPTY_PATH: u32 = 0x1000;
const AT_RECURSIVE: u32 = 0x8000;
const MOUNT_ATTR_RDONLY: u64 = 1;

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
    let attributes =
        MountAttr { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let path = c"";
    // SAFETY: the kernel reads a text that ends and a structure of the given size; both
    // live until it returns.
    let result = unsafe {
        syscall(
            SYS_MOUNT_SETATTR,
            i64::from(mount.as_raw_fd()),
            path.as_ptr(),
            i64::from(AT_EMPTY_PATH | AT_RECURSIVE),
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
