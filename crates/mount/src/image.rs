// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Turning an image file into a mount that is attached nowhere yet.
//!
//! Such a detached mount is a descriptor: files in it can be opened, and it can be
//! moved to a mount point. The bytes of the image are read by the kernel or by a
//! FUSE program of the user, never by this crate.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_sys::{child, loop_device};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use rustix::process::{getegid, geteuid};

use crate::{Backend, Error};

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

    fn package(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfuse",
            Self::Erofs => "erofsfuse",
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
}

/// The programs that serve images through FUSE, the preferred one first.
///
/// They must take the low-level mount descriptor as `/dev/fd/N` (libfuse 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusePrograms {
    /// For squashfs.
    pub squashfs: Vec<PathBuf>,
    /// For EROFS.
    pub erofs: Vec<PathBuf>,
}

impl Default for FusePrograms {
    fn default() -> Self {
        let in_system = |name: &str| {
            ["/usr/bin", "/usr/local/bin", "/bin"].map(|directory| Path::new(directory).join(name))
        };
        Self {
            squashfs: [in_system("squashfuse_ll"), in_system("squashfuse")].concat(),
            erofs: in_system("erofsfuse").to_vec(),
        }
    }
}

impl FusePrograms {
    fn find(&self, format: ImageFormat) -> Result<&Path, Error> {
        let programs = match format {
            ImageFormat::Squashfs => &self.squashfs,
            ImageFormat::Erofs => &self.erofs,
        };
        programs
            .iter()
            .find(|path| path.is_file())
            .map(PathBuf::as_path)
            .ok_or_else(|| Error::FuseProgram {
                programs: programs.clone(),
                package: format.package(),
            })
    }
}

/// Makes a detached mount of an image: read-only, no set-uid programs, no devices.
///
/// The process must already be in a namespace of its own. Through FUSE a server
/// process is started in that namespace; it ends by itself when the mount is gone.
///
/// # Errors
///
/// What the kernel answered, with its log where it wrote one.
pub fn attach(backend: Backend, image: &ImageFile, fuse: &FusePrograms) -> Result<OwnedFd, Error> {
    match (backend, image.format) {
        (Backend::Root, ImageFormat::Squashfs) => attach_through_loop(image),
        (Backend::Root, ImageFormat::Erofs) => match attach_from_file(image) {
            // Before Linux 6.12 the kernel wants a block device.
            Err(Error::Image { source, .. })
                if source.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) =>
            {
                attach_through_loop(image)
            }
            result => result,
        },
        (Backend::UserNamespace, format) => attach_through_fuse(image, fuse.find(format)?),
    }
}

/// Opens a file inside a detached mount; no link leads out of it.
///
/// # Errors
///
/// Those of `openat2(2)`.
pub fn open_in_image(mount: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat2(mount, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    Ok(File::from(fd))
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
    fsconfig_set_string(context.as_fd(), "source", source)
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "ro"))
        .and_then(|()| fsconfig_create(context.as_fd()))
        .map_err(|errno| refused(Some(&context), errno))?;
    detached(&context).map_err(|errno| refused(Some(&context), errno))
}

fn detached(context: &OwnedFd) -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Reads what the kernel wrote about a refused mount, one line.
fn kernel_log(context: BorrowedFd<'_>) -> Option<String> {
    let mut buffer = [0_u8; 1024];
    let length = rustix::io::read(context, &mut buffer).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..length)?)
        .trim()
        .to_owned();
    // Each line begins with its level: "e ", "w " or "i ".
    Some(text.get(2..).unwrap_or_default().to_owned()).filter(|text| !text.is_empty())
}

/// The mount is made here and only then is the program started that serves it: it
/// needs no privilege, and a request before the mount would make it give up.
fn attach_through_fuse(image: &ImageFile, program: &Path) -> Result<OwnedFd, Error> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|source| Error::FuseDevice { source })?;
    let mount = fuse_mount(image, &device)?;
    let mut command = Command::new(program);
    command
        .env_clear()
        .arg("-f")
        .arg(format!("/proc/self/fd/{}", image.file.as_raw_fd()))
        .arg(format!("/dev/fd/{}", device.as_raw_fd()));
    child::start_detached(&mut command, &[image.file.as_fd(), device.as_fd()]).map_err(
        |source| Error::Step {
            what: "start",
            path: program.to_owned(),
            source,
        },
    )?;
    drop(device);
    check_served(image, &mount)?;
    Ok(mount)
}

fn fuse_mount(image: &ImageFile, device: &File) -> Result<OwnedFd, Error> {
    let refused = |source: Errno| Error::Image {
        path: image.path.clone(),
        format: "fuse",
        log: None,
        source: source.into(),
    };
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(refused)?;
    let set = |key, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    let number = |value: u32| value.to_string();
    set("source", image.format.package())
        .and_then(|()| set("subtype", image.format.package()))
        .and_then(|()| set("fd", &device.as_raw_fd().to_string()))
        .and_then(|()| set("rootmode", "40000"))
        .and_then(|()| set("user_id", &number(geteuid().as_raw())))
        .and_then(|()| set("group_id", &number(getegid().as_raw())))
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "default_permissions"))
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "ro"))
        .and_then(|()| fsconfig_create(context.as_fd()))
        .map_err(refused)?;
    detached(&context).map_err(refused)
}

/// Asks for the root of the mount: a program that could not read the image has
/// ended, and the kernel answers for it.
fn check_served(image: &ImageFile, mount: &OwnedFd) -> Result<(), Error> {
    open_in_image(mount.as_fd(), Path::new("."))
        .and_then(|root| root.metadata())
        .map(drop)
        .map_err(|source| Error::Image {
            path: image.path.clone(),
            format: image.format.name(),
            log: Some("the FUSE program gave up: the file is damaged or of another kind".into()),
            source,
        })
}
