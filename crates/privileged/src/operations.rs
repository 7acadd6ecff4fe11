// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Every operation that takes the rights of root: a closed list.
//!
//! Nothing else in this crate asks the kernel for something that needs rights, but for changing
//! who the process is (`caller.rs`) and for making and removing directories in file systems in
//! memory of its own. Beside each stands what it acts on, what it may wait for, and why it is
//! safe. `docs/design/0005-the-helper.md` has the same as a table of system calls, with which
//! a test compares what the helper really does.
//!
//! The kernel waits in each of them for its own list of mounts, which every mount and unmount
//! on the node holds for microseconds.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cabane_sys::{device_mapper, loop_device, mount_attributes, namespace};
use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount_change, mount_move, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, chroot, fchdir, pivot_root};

pub use cabane_sys::device_mapper::{Verity as VerityTable, VerityDevice};
pub use cabane_sys::loop_device::{Binding, LoopDevice, MAJOR as LOOP_DEVICES};

use crate::{Error, ImageFormat};

// ── mounts that are attached nowhere ─────────────────────────────────────────────────────────

/// Clones the mount of a file or directory, so that this is its root; with all that is mounted
/// below it, if that is requested.
///
/// Acts on a place that was opened by the caller (a bind, an image on a checked mount) or in the
/// mount cache. Waits for nothing: no file system gets a request. Safe, because a clone shows no one
/// more than the descriptor did, and the kernel clones only what is in this mount namespace.
pub fn clone_mount(place: BorrowedFd<'_>, is_recursive: bool) -> Result<OwnedFd, Errno> {
    open_tree(place, c"", OpenTreeFlags::AT_EMPTY_PATH | clone_flags(is_recursive))
}

/// Clones the mount at a name in a directory, or at an absolute path.
///
/// Acts on the mount cache, on the directories of a root image and on the kernel's (`/dev`,
/// `/proc`, `/sys`). Waits for nothing but the file system of the directory, which is never one
/// that a user serves. Safe as above.
pub fn clone_at(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
    is_recursive: bool,
) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::AT_NO_AUTOMOUNT | clone_flags(is_recursive);
    open_tree(directory, name, flags)
}

fn clone_flags(is_recursive: bool) -> OpenTreeFlags {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if is_recursive {
        flags | OpenTreeFlags::AT_RECURSIVE
    } else {
        flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
    }
}

/// Lets the kernel read an image: a mount that is read-only, without set-uid programs and
/// devices.
///
/// Acts on a loop device that this process has bound, or opened and found bound as it was, or
/// on a file of root's own. Waits for the storage on which the image lies, never for a process
/// of a user: the mount of the file was checked. Safe as far as the policy is right about who
/// may hand bytes to the kernel's squashfs and EROFS.
///
/// # Errors
///
/// What the kernel answered, and what it wrote about it.
pub fn mount_image(format: ImageFormat, source: &Path) -> Result<OwnedFd, (Errno, Option<String>)> {
    let context =
        fsopen(format.name(), FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| (errno, None))?;
    if format == ImageFormat::Squashfs {
        ask_for_parallel_reading(&context);
    }
    fsconfig_set_string(context.as_fd(), "source", source)
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "ro"))
        .and_then(|()| fsconfig_create(context.as_fd()))
        .and_then(|()| detached(&context))
        .map_err(|errno| (errno, kernel_log(context.as_fd())))
}

/// Makes a mount that a process of a user serves through FUSE: read-only, without set-uid programs
/// and devices.
///
/// Acts on `/dev/fuse`, which this process has opened with the rights of the user, and which no one
/// else has yet: the kernel can be told by its owner to wait for the server here. Waits for nothing:
/// the kernel writes its first request down and goes on. Safe: the kernel parses nothing that the
/// server sends but the answers of FUSE, as with `fusermount3`; and only a process that is this
/// user and group in all its numbers may access the mount. To all others, to root, too, the kernel
/// answers `EACCES` without asking the server.
pub fn mount_fuse(
    device: BorrowedFd<'_>,
    user: u32,
    group: u32,
    program: &str,
) -> Result<OwnedFd, Errno> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    set("source", program)?;
    set("subtype", program)?;
    set("fd", &device.as_raw_fd().to_string())?;
    set("rootmode", "40000")?;
    set("user_id", &user.to_string())?;
    set("group_id", &group.to_string())?;
    fsconfig_set_flag(context.as_fd(), "default_permissions")?;
    fsconfig_set_flag(context.as_fd(), "ro")?;
    fsconfig_create(context.as_fd())?;
    detached(&context)
}

/// Makes the mount of a file system that was set up: read-only, without set-uid programs and
/// devices.
pub fn detached(context: &OwnedFd) -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Makes an empty file system in memory, with this mode, and a limit where one is given.
///
/// Acts on nothing that is there. Waits for nothing. Safe: no one has it yet.
pub fn memory(mode: &str, size: Option<&str>) -> Result<OwnedFd, Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", "cabane")?;
    fsconfig_set_string(context.as_fd(), "mode", mode)?;
    if let Some(size) = size {
        fsconfig_set_string(context.as_fd(), "size", size)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Clones the mount of an unpacked image, so that this is its root: read-only, without set-uid programs
/// and devices, and without what may be mounted below it.
///
/// Acts on a directory that belongs to root, as all above it do. Waits for nothing. Safe: everyone can
/// read what is there.
pub fn clone_unpacked(place: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(place, c"", OpenTreeFlags::AT_EMPTY_PATH | flags)?;
    mount_attributes::make_plain(mount.as_fd())?;
    Ok(mount)
}

/// Makes a mount that is attached nowhere, and all below it, read-only.
///
/// Acts on the clone of a bind. Waits for writers of that clone, of which there are none. Safe:
/// it only takes something away.
pub fn make_tree_read_only(mount: BorrowedFd<'_>) -> std::io::Result<()> {
    mount_attributes::make_tree_read_only(mount)
}

/// Reads what the kernel wrote about a refused mount, one line.
pub fn kernel_log(context: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0_u8; 1024];
    let length = rustix::io::read(context, &mut buffer).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..length)?).trim().to_owned();
    // Each line begins with its level: "e ", "w " or "i ".
    Some(text.get(2..).unwrap_or_default().to_owned()).filter(|text| !text.is_empty())
}

/// One superblock serves every process of the node, and each processor should unpack
/// for itself. Kernels before 6.2, or built without the choice, refuse the option.
fn ask_for_parallel_reading(context: &OwnedFd) {
    if fsconfig_set_string(context.as_fd(), "threads", "percpu").is_err() {
        // What the kernel wrote about that would be taken for the reason of a
        // failure to come.
        while kernel_log(context.as_fd()).is_some() {}
    }
}

// ── attaching and detaching ──────────────────────────────────────────────────────────────────

/// Attaches a mount at a place that is open.
///
/// Acts on a mount point that was opened by the caller and is in the policy, on a place of a
/// root image, or in the mount cache; always in a mount namespace of this process, or in the
/// cache. Waits for nothing but processes that list the directory at this moment. Safe: what
/// was opened is what is covered, and no one else sees it.
pub fn attach_at(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", place, c"", whole)
}

/// Attaches a mount at a name in a directory, or at an absolute path.
///
/// Acts on the mount cache, and on what this process has made for itself. Waits, and safe, as
/// above; the name is never looked up in a directory in which a user can change something.
pub fn attach_in(
    mount: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(mount, c"", directory, name, flags)
}

/// Attaches a mount at a path.
///
/// # Errors
///
/// [`Error::MountPoint`] with the path.
pub fn attach(mount: &OwnedFd, target: &Path) -> Result<(), Error> {
    attach_in(mount.as_fd(), CWD, target)
        .map_err(|errno| Error::MountPoint { path: target.to_owned(), source: errno.into() })
}

/// Takes a mount away at a name in a directory or at an absolute path, at once and for all who
/// come later.
///
/// Acts on the mount cache, on the namespace file below `/run/cabane`, and on what this process
/// has just attached. Waits for nothing: who still uses the file system keeps it. Safe: only root
/// can look there.
pub fn detach(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<(), Errno> {
    if directory.as_raw_fd() != CWD.as_raw_fd() {
        fchdir(directory)?;
    }
    unmount(name, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
}

/// Makes what is attached at a path read-only. In a user namespace the flags that the mount
/// already has are locked and must be named again.
///
/// Acts on binds and on file systems in memory of this process. Waits for nothing but the file
/// system of a bind, where there is one; the helper makes those read-only before they are
/// attached. Safe: it only takes something away.
pub fn make_read_only(target: &Path) -> Result<(), Error> {
    let failed = || Error::step("make read-only", target);
    let now = statvfs(target).map_err(failed())?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    let known = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    for (has, keep) in known {
        if now.contains(has) {
            flags |= keep;
        }
    }
    mount_remount(target, flags, c"").map_err(failed())
}

/// Makes a file system in memory of this process read-only, where it is attached.
///
/// Acts on what this process has made. Waits for nothing. Safe: it takes something away.
pub fn seal(directory: &Path) -> Result<(), Error> {
    mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY, c"")
        .map_err(Error::step("make read-only", directory))
}

// ── namespaces and roots ─────────────────────────────────────────────────────────────────────

/// Makes a new mount namespace, a copy of that in which the process is, and enters it. What is
/// mounted there leaks nowhere.
///
/// Acts on this process. Waits for nothing. Safe: everyone else sees what they saw.
///
/// # Errors
///
/// [`Error::Namespace`] where the system refuses.
pub fn enter_own_namespace() -> Result<(), Error> {
    namespace::unshare_mounts().map_err(|source| Error::Namespace { source })?;
    make_slave()
}

/// Stops mounts from leaking to the namespace this one was copied from.
///
/// Acts on this namespace. Waits for nothing. Safe: no one else is in it.
pub fn make_slave() -> Result<(), Error> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(Error::step("make the mounts private below", "/"))
}

/// Lets mounts neither in nor out, at a path and below it.
///
/// Acts on the namespace of the mount cache. Waits for nothing. Safe: no one but root looks there.
pub(crate) fn make_tree_private(path: &str) -> Result<(), Errno> {
    mount_change(path, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Lets mounts neither in nor out at a path, and leaves it out of recursive binds: the kernel
/// refuses to attach a tree with the file of an older mount namespace in it (`ELOOP`).
///
/// Acts on the mount of `/run/cabane`. Waits for nothing. Safe: no one but root looks there.
pub(crate) fn make_unbindable(path: &str) -> Result<(), Errno> {
    mount_change(path, MountPropagationFlags::UNBINDABLE)
}

/// Makes a new mount namespace for the cache, and enters it.
///
/// Acts on this process. Waits for nothing. Safe: it is emptied before it is kept.
pub(crate) fn make_namespace() -> std::io::Result<()> {
    namespace::unshare_mounts()
}

/// Enters a mount namespace: the cache, back to that of the caller, that of the first process,
/// or one of the caller that the kernel let them open.
///
/// Waits for nothing. Safe: the namespaces are root's own, or belong to a process that the
/// caller may trace and to the user namespace of the helper.
pub(crate) fn enter(namespace: BorrowedFd<'_>) -> std::io::Result<()> {
    namespace::enter_mounts(namespace)
}

/// Makes an open directory the root and the working directory again.
///
/// Acts on what was the root of this process before. Waits for nothing. Safe: it goes back.
pub(crate) fn restore_root(root: BorrowedFd<'_>) -> Result<(), Errno> {
    fchdir(root)?;
    chroot(c".")
}

/// Makes a directory the root of this process, and takes the root that was there away.
///
/// Acts on a mount namespace of this process. Waits for nothing. Safe: no one else is in it.
pub fn change_root(place: &Path) -> Result<(), Error> {
    let failed = || Error::step("make the private root of", place);
    chdir(place).map_err(failed())?;
    match pivot_root(c".", c".") {
        Ok(()) => unmount(c".", UnmountFlags::DETACH).map_err(failed())?,
        // The root of a diskless node may be the kernel's initial one, which
        // cannot be exchanged, only covered.
        Err(Errno::INVAL) => {
            mount_move(c".", c"/").map_err(failed())?;
            chroot(c".").map_err(failed())?;
        }
        Err(errno) => return Err(failed()(errno)),
    }
    chdir(c"/").map_err(failed())
}

// ── loop devices ─────────────────────────────────────────────────────────────────────────────

/// Makes a file a block device, read-only, for as long as it is open or mounted.
///
/// Acts on a file that was opened with the rights of the caller on a checked mount, or on a copy
/// of it. Waits for other processes of root that bind devices. Safe: the device shows the bytes
/// of a file that the caller could read, to root alone.
pub(crate) fn bind_loop_device(
    file: BorrowedFd<'_>,
    binding: &Binding,
) -> std::io::Result<LoopDevice> {
    loop_device::attach(file, binding)
}

/// Opens a loop device below a root directory, if it is still bound as it was.
///
/// Acts on a device that one of these processes has bound. Waits as above. Safe as above.
pub(crate) fn find_loop_device(
    root: BorrowedFd<'_>,
    number: u32,
    binding: &Binding,
) -> Result<Option<LoopDevice>, std::io::Error> {
    loop_device::find(root, number, binding)
}

/// Makes a block device that shows what is on another one, and gives an I/O error for each block that
/// does not fit a hash tree.
///
/// Acts on devices that this process has bound. Waits for the storage of the hash tree, as a mount
/// does for that of an image. Safe: a root hash in a list of root, or a signature that the kernel
/// checks, says what can be read there.
pub(crate) fn make_verity_device(
    binding: &Binding,
    table: &VerityTable<'_>,
) -> std::io::Result<VerityDevice> {
    device_mapper::create(&binding.to_string(), table)
}

/// Opens such a device below a root directory, if it is still there, and lets it go with its last
/// user.
///
/// Acts on a device that one of these processes has made. Waits, and safe, as above.
pub(crate) fn find_verity_device(
    root: BorrowedFd<'_>,
    binding: &Binding,
) -> std::io::Result<Option<VerityDevice>> {
    device_mapper::find(root, &binding.to_string())
}

/// Removes a loop device that is bound to nothing; tells whether it is gone.
///
/// Acts on a device that was made for an image. Waits as above. Safe: one in use is kept.
pub(crate) fn remove_loop_device(number: u32) -> bool {
    loop_device::remove(number).is_ok()
}
