// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images through the kernel's own file systems.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cabane_sys::{loop_device, privilege};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use crate::{Error, ImageFile, ImageFormat};

/// Makes a detached mount of an image, with a superblock of its own.
pub(crate) fn attach(image: &ImageFile) -> Result<OwnedFd, Error> {
    match image.format {
        ImageFormat::Squashfs => attach_through_loop(image),
        ImageFormat::Erofs => match attach_from_file(image) {
            // Before Linux 6.12 the kernel wants a block device.
            Err(Error::Image { source, .. })
                if source.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) =>
            {
                attach_through_loop(image)
            }
            result => result,
        },
    }
}

/// The same for a user who is not trusted.
pub(crate) fn attach_for(image: &ImageFile, user: u32) -> Result<OwnedFd, Error> {
    let alone = without_path(image)?;
    let failed = |source| Error::Step {
        what: "open with the rights of the user",
        path: image.path.clone(),
        source,
    };
    // Opening as root fails where a file server does not trust root, and what the user
    // may not open by himself is not for him, however he came by the descriptor.
    let rights = privilege::FileSystemUser::become_user(user).map_err(failed)?;
    let own = ImageFile {
        file: File::open(format!("/proc/self/fd/{}", alone.as_raw_fd())).map_err(failed)?,
        path: image.path.clone(),
        format: image.format,
    };
    if image.format == ImageFormat::Erofs {
        match attach_from_file(&own) {
            Err(Error::Image { source, .. })
                if source.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) => {}
            result => return result,
        }
    }
    drop(rights);
    attach_through_loop(&own)
}

/// Clones the place of a file, and nothing around it.
///
/// Opened there the file has no path: everybody can read in
/// `/sys/block/loopN/loop/backing_file` which file a device is bound to. And the kernel
/// clones only what lies in this mount namespace, not what a user mounted in one of his.
fn without_path(image: &ImageFile) -> Result<OwnedFd, Error> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&image.file, "", flags).map_err(|_| Error::Refused {
        image: image.path.clone(),
        reason: "it does not lie on a file system of this mount namespace",
    })
}

fn attach_from_file(image: &ImageFile) -> Result<OwnedFd, Error> {
    let source = format!("/proc/self/fd/{}", image.file.as_raw_fd());
    kernel_mount(image, &source)
}

fn attach_through_loop(image: &ImageFile) -> Result<OwnedFd, Error> {
    let device =
        loop_device::attach(image.file.as_fd()).map_err(|source| Error::LoopDevice { source })?;
    kernel_mount(image, &device.path().to_string_lossy())
}

fn kernel_mount(image: &ImageFile, source: &str) -> Result<OwnedFd, Error> {
    let refused = |context: Option<&OwnedFd>, errno: Errno| Error::Image {
        path: image.path.clone(),
        format: image.format.name(),
        log: context.and_then(|fd| kernel_log(fd.as_fd())),
        source: errno.into(),
    };
    let context = fsopen(image.format.name(), FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|errno| refused(None, errno))?;
    if image.format == ImageFormat::Squashfs {
        ask_for_parallel_reading(&context);
    }
    fsconfig_set_string(context.as_fd(), "source", source)
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "ro"))
        .and_then(|()| fsconfig_create(context.as_fd()))
        .map_err(|errno| refused(Some(&context), errno))?;
    detached(&context).map_err(|errno| refused(Some(&context), errno))
}

pub(crate) fn detached(context: &OwnedFd) -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Reads what the kernel wrote about a refused mount, one line.
pub(crate) fn kernel_log(context: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0_u8; 1024];
    let length = rustix::io::read(context, &mut buffer).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..length)?)
        .trim()
        .to_owned();
    // Each line begins with its level: "e ", "w " or "i ".
    Some(text.get(2..).unwrap_or_default().to_owned()).filter(|text| !text.is_empty())
}

/// One superblock serves every process of the node, and each processor should unpack
/// for itself. Kernels before 6.2, or built without the choice, refuse the word.
fn ask_for_parallel_reading(context: &OwnedFd) {
    if fsconfig_set_string(context.as_fd(), "threads", "percpu").is_err() {
        // What the kernel wrote about that would be taken for the reason of a
        // failure to come.
        while kernel_log(context.as_fd()).is_some() {}
    }
}
