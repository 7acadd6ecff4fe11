// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image file, and letting the kernel read it.
//!
//! What comes out is a mount that is attached nowhere yet: a descriptor, which can be moved to
//! a mount point.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::operations::{self, Binding, LOOP_DEVICES, LoopDevice, VerityDevice, VerityTable};
use crate::verity::Voucher;
use crate::{Caller, Error, ImageDigest, Policy, Trust, Verity, judge};

/// The file system an image holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Squashfs 4.
    Squashfs,
    /// EROFS.
    Erofs,
}

impl ImageFormat {
    /// Returns the kernel's name of the file system.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
        }
    }

    /// Returns how the programs that serve it through FUSE are called, and their packages on Debian
    /// and Ubuntu.
    pub fn fuse_name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfuse",
            Self::Erofs => "erofsfuse",
        }
    }

    /// Returns the number by which the kernel knows the file system (`linux/magic.h`).
    pub(crate) fn magic(self) -> u64 {
        match self {
            Self::Squashfs => 0x7371_7368,
            Self::Erofs => 0xe0f5_e1e2,
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who reads an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel's own file system.
    Kernel,
    /// The same, from a device on which the kernel checks each block with a hash tree.
    Verified,
    /// A process of the user, which the kernel asks through FUSE.
    Fuse,
    /// The file system of the node on which root has unpacked the image with this digest.
    Unpacked(ImageDigest),
}

impl Way {
    /// Returns its name, as in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Verified => "verified",
            Self::Fuse => "fuse",
            Self::Unpacked(_) => "unpacked",
        }
    }
}

/// An opened image file.
#[derive(Debug)]
pub struct ImageFile {
    /// The file, opened for reading with the rights of the user.
    pub file: File,
    /// Where it was, for messages.
    pub path: PathBuf,
    /// What it holds.
    pub format: ImageFormat,
    /// What its content can be checked with.
    pub verity: Option<Verity>,
}

impl ImageFile {
    /// Returns why the kernel may read it, if it may.
    pub(crate) fn trust(&self) -> Trust {
        if self.verity.is_some() { Trust::Content } else { Trust::Owner }
    }

    /// Returns the file, and behind it its hash tree.
    pub(crate) fn opened(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let tree = self.verity.as_ref().map(|verity| verity.tree.as_fd());
        std::iter::once(self.file.as_fd()).chain(tree)
    }
}

/// Makes a detached mount of an image for root, with a superblock of its own.
///
/// # Errors
///
/// What the kernel answered, with its log where it wrote one.
pub fn attach_for_root(image: &ImageFile) -> Result<OwnedFd, Error> {
    if let Some(mounted) = mount_file(image) {
        return mounted;
    }
    let binding = Binding::new();
    mount_device(image, &BlockDevice::Loop(bind(&image.file, &binding)?))
}

/// Mounts an image without a device; nothing where the kernel cannot do that: a squashfs image,
/// and EROFS before Linux 6.12.
pub(crate) fn mount_file(image: &ImageFile) -> Option<Result<OwnedFd, Error>> {
    if image.format != ImageFormat::Erofs {
        return None;
    }
    let source = format!("/proc/self/fd/{}", image.file.as_raw_fd());
    match operations::mount_image(image.format, Path::new(&source)) {
        Err((Errno::NOTBLK, _)) => None,
        result => Some(result.map_err(|answer| refused(image, answer))),
    }
}

/// Opens an image once more, with the rights of the caller and without its path.
///
/// Anyone who mounts an image first must be able to open it; its next starts, and those of others,
/// need a descriptor that is open for reading. And root may not be trusted by a file server. Everyone can read in
/// `/sys/block/loopN/loop/backing_file` which file a device is bound to: opened in a clone of its
/// mount, which has nothing around it, it has no path.
pub(crate) fn open_for(image: &ImageFile, caller: &Caller) -> Result<ImageFile, Error> {
    let open = |file: &File| {
        let clone = operations::clone_mount(file.as_fd(), false).map_err(|_| Error::Refused {
            image: image.path.clone(),
            reason: "it is not on a file system of this mount namespace".into(),
        })?;
        reopen(clone.as_fd(), caller, Error::step("open with the rights of the user", &image.path))
    };
    let file = open(&image.file)?;
    let verity = image.verity.as_ref().map(|verity| {
        let (root_hash, signature) = (verity.root_hash.clone(), verity.signature.clone());
        Ok(Verity { tree: open(&verity.tree)?, root_hash, signature })
    });
    let (path, format) = (image.path.clone(), image.format);
    Ok(ImageFile { file, path, format, verity: verity.transpose()? })
}

/// Opens an image that a user has named to a process of root that serves others. `place` is an
/// `O_PATH` descriptor, opened with the rights of the user.
///
/// It may be an image, or a hash tree. Only plain files on mounts that the policy allows are opened. Closing a file asks its file
/// system, which a process of the user may serve; opening a device can wait for the device.
///
/// # Errors
///
/// [`Error::Refused`] for what the policy does not allow and for anything but a plain file; and that
/// of opening.
pub fn open_at_place(
    policy: &Policy,
    place: BorrowedFd<'_>,
    path: &Path,
    trust: Trust,
    caller: &Caller,
) -> Result<File, Error> {
    let mount = judge::check_mount(policy, place, judge::mount_of(place), path, trust)?;
    let found = caller.act(|| fstat(place).map_err(Error::step("look at", path)))?;
    judge::check_plain(&found, path)?;
    let file = reopen(place, caller, Error::step("open", path))?;
    caller.act(|| judge::check_file(policy, file.as_fd(), &mount, path, trust))?;
    Ok(file)
}

fn reopen(
    file: BorrowedFd<'_>,
    caller: &Caller,
    failed: impl FnOnce(Errno) -> Error,
) -> Result<File, Error> {
    caller.act(|| {
        // Not blocking: who has a lease on the file would be waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let place = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file = openat(CWD, place, flags, Mode::empty()).map_err(failed)?;
        Ok(file.into())
    })
}

/// Binds a loop device to a file.
pub(crate) fn bind(file: &File, binding: &Binding) -> Result<LoopDevice, Error> {
    operations::bind_loop_device(file.as_fd(), binding)
        .map_err(|source| Error::LoopDevice { source })
}

/// The block device on which an image is.
pub(crate) enum BlockDevice {
    /// The file as it is.
    Loop(LoopDevice),
    /// The file as far as it fits its hash tree.
    Verity(VerityDevice),
}

impl BlockDevice {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Loop(device) => device.path(),
            Self::Verity(device) => device.path(),
        }
    }
}

/// Makes a device on which the kernel checks the content of an image of a size, in bytes, that is on
/// another device, as its hash tree is.
pub(crate) fn verify(
    image: &ImageFile,
    size: i64,
    [data, tree]: [&LoopDevice; 2],
    binding: &Binding,
    verity: &Verity,
    voucher: Voucher,
) -> Result<BlockDevice, Error> {
    let failed = |source| Error::Verity { image: image.path.clone(), source };
    let table = VerityTable {
        data: (LOOP_DEVICES, data.number()),
        tree: (LOOP_DEVICES, tree.number()),
        size: u64::try_from(size).unwrap_or_default(),
        root_hash: verity.root_hash.as_str(),
        signature: match voucher {
            Voucher::List => &[],
            Voucher::Signature => &verity.signature,
        },
    };
    operations::make_verity_device(binding, &table).map(BlockDevice::Verity).map_err(failed)
}

/// Mounts what a device shows. Where that is mounted already, this is the same file system.
pub(crate) fn mount_device(image: &ImageFile, device: &BlockDevice) -> Result<OwnedFd, Error> {
    operations::mount_image(image.format, device.path()).map_err(|answer| refused(image, answer))
}

fn refused(image: &ImageFile, (errno, log): (Errno, Option<String>)) -> Error {
    Error::Image {
        path: image.path.clone(),
        format: image.format.name(),
        log,
        source: errno.into(),
    }
}
