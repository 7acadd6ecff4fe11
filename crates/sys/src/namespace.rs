// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Leaving the namespaces of the caller.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// The type of the kernel's file system of namespaces (`linux/magic.h`).
const NSFS_MAGIC: u64 = 0x6e73_6673;
/// `linux/nsfs.h`.
const NS_GET_USERNS: Opcode = 0xb701;
/// `linux/nsfs.h`.
const NS_GET_NSTYPE: Opcode = 0xb703;
const CLONE_NEWNS: i32 = 0x0002_0000;

/// Gives the process a mount namespace of its own, a copy of the caller's.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN` in the user namespace of the process.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Gives the process a user namespace in which it keeps its user and group, and
/// a mount namespace that this user namespace owns.
///
/// The process holds every capability in the new user namespace until it starts
/// a program. Other users and groups have no number there (files show as
/// `no one`), and permissions by supplementary groups go on to work.
///
/// # Errors
///
/// `EPERM` where the system forbids user namespaces, `EINVAL` in a process with
/// several threads, `ENOSPC` at the limit of namespaces.
pub fn unshare_user_and_mounts() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare_user_and_mounts_as(user, group)
}

/// The same, and there the process is root, to whom the files of the caller belong.
///
/// # Errors
///
/// The kernel's.
pub fn unshare_user_and_mounts_as_root() -> io::Result<()> {
    unshare_user_and_mounts_as(0, 0)
}

fn unshare_user_and_mounts_as(inside_user: u32, inside_group: u32) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare_alone(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // Without this the kernel refuses a group map written by an ordinary user.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{inside_user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{inside_group} {group} 1"))
}

/// How often a user namespace is asked for, and the pause after each time.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Leaves the user namespace. A thread that has done its work, such as the look-up of a name, may still be
/// ending.
fn unshare_alone(flags: UnshareFlags) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match unshare(flags) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => sleep(PAUSE),
            outcome => return outcome,
        }
    }
    unshare(flags)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the flags never hold FILES, the one that would leave other threads
    // with descriptors they do not know; namespaces change no memory.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

/// Gives the calling thread a root, a working directory and a file mode mask of its own,
/// so that it can enter mount namespaces in a process with several threads.
///
/// # Errors
///
/// None that the kernel knows.
pub fn unshare_directories() -> io::Result<()> {
    unshare(UnshareFlags::FS)
}

/// Opens the mount namespace the calling thread is in.
///
/// # Errors
///
/// Those of `open(2)`; `EINVAL` if `/proc` is not the kernel's.
pub fn own_mounts() -> io::Result<File> {
    let file = File::open("/proc/thread-self/ns/mnt")?;
    if is_mount_namespace(file.as_fd()) { Ok(file) } else { Err(Errno::INVAL.into()) }
}

/// Tells whether a descriptor is a mount namespace.
pub fn is_mount_namespace(file: BorrowedFd<'_>) -> bool {
    is_namespace(file)
        // SAFETY: on a namespace this request takes no argument and returns a number.
        && unsafe { ioctl(file, Number(NS_GET_NSTYPE)) } == Ok(CLONE_NEWNS)
}

fn is_namespace(file: BorrowedFd<'_>) -> bool {
    fstatfs(file).is_ok_and(|found| u64::try_from(found.f_type) == Ok(NSFS_MAGIC))
}

/// Tells whether a namespace belongs to the user namespace that the process is in.
///
/// # Errors
///
/// `EPERM` for one outside of the process's own, `EINVAL` for something that is no
/// namespace.
pub fn belongs_to_own_user_namespace(file: BorrowedFd<'_>) -> io::Result<bool> {
    if !is_namespace(file) {
        return Err(Errno::INVAL.into());
    }
    // SAFETY: on a namespace this request takes no argument and returns a descriptor.
    let owner = unsafe { ioctl(file, Number(NS_GET_USERNS)) }?;
    // SAFETY: the descriptor is new and belongs to no one else.
    let owner = unsafe { OwnedFd::from_raw_fd(owner) };
    let (owner, own) = (fstat(owner)?, fstat(File::open("/proc/self/ns/user")?)?);
    Ok((owner.st_dev, owner.st_ino) == (own.st_dev, own.st_ino))
}

/// Opens the mount namespace of the first process of the system. There is none where the process
/// may not look into that one, as in some containers, or where that one is in another user
/// namespace: then its user has furnished what it sees.
///
/// # Errors
///
/// Those of `open(2)`.
pub fn of_first_process() -> io::Result<Option<File>> {
    let file = match File::open("/proc/1/ns/mnt") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        file => file?,
    };
    let is_ours = belongs_to_own_user_namespace(file.as_fd());
    Ok(matches!(is_ours, Ok(true)).then_some(file))
}

/// Moves the process into a mount namespace. Its root and working directory become
/// the root of that namespace.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN` over the namespace, `EINVAL` for something else
/// than a mount namespace.
pub fn enter_mounts(namespace: BorrowedFd<'_>) -> io::Result<()> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// A request without argument whose answer is the return value of the call.
struct Number(Opcode);

// SAFETY: the requests it is used for take no argument and return a number.
unsafe impl Ioctl for Number {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.0
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        core::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut core::ffi::c_void,
    ) -> rustix::io::Result<i32> {
        Ok(output)
    }
}
