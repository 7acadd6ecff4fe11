// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images through FUSE: a program of the system serves them, as the user.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_privileged::operations::detached;
use cabane_privileged::{Error as Privileged, ImageFile, ImageFormat};
use cabane_process::child;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsopen};
use rustix::process::{getegid, geteuid};

use crate::Error;
use crate::inside::open_in_image;

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
    /// Returns the program that would serve an image of this format.
    ///
    /// # Errors
    ///
    /// [`Error::FuseProgram`] if none is installed.
    pub fn find(&self, format: ImageFormat) -> Result<&Path, Error> {
        let programs = match format {
            ImageFormat::Squashfs => &self.squashfs,
            ImageFormat::Erofs => &self.erofs,
        };
        programs.iter().find(|path| path.is_file()).map(PathBuf::as_path).ok_or_else(|| {
            Error::FuseProgram { programs: programs.clone(), package: package(format) }
        })
    }
}

/// Makes a detached mount of an image and starts the program that serves it.
///
/// The mount is made here and only then is the program started that serves it: it
/// needs no privilege, and a request before the mount would make it give up.
pub(crate) fn attach(image: &ImageFile, programs: &FusePrograms) -> Result<OwnedFd, Error> {
    let program = programs.find(image.format)?;
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
    child::start_detached(&mut command, &[image.file.as_fd(), device.as_fd()])
        .map_err(|source| Privileged::Step { what: "start", path: program.to_owned(), source })?;
    drop(device);
    check_served(image, &mount)?;
    Ok(mount)
}

fn fuse_mount(image: &ImageFile, device: &File) -> Result<OwnedFd, Error> {
    let refused = |source: Errno| Privileged::Image {
        path: image.path.clone(),
        format: "fuse",
        log: None,
        source: source.into(),
    };
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(refused)?;
    let set = |key, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    let number = |value: u32| value.to_string();
    set("source", package(image.format))
        .and_then(|()| set("subtype", package(image.format)))
        .and_then(|()| set("fd", &device.as_raw_fd().to_string()))
        .and_then(|()| set("rootmode", "40000"))
        .and_then(|()| set("user_id", &number(geteuid().as_raw())))
        .and_then(|()| set("group_id", &number(getegid().as_raw())))
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "default_permissions"))
        .and_then(|()| fsconfig_set_flag(context.as_fd(), "ro"))
        .and_then(|()| fsconfig_create(context.as_fd()))
        .map_err(refused)?;
    Ok(detached(&context).map_err(refused)?)
}

/// Asks for the root of the mount: a program that could not read the image has
/// ended, and the kernel answers for it.
fn check_served(image: &ImageFile, mount: &OwnedFd) -> Result<(), Error> {
    open_in_image(mount.as_fd(), Path::new(".")).and_then(|root| root.metadata()).map_err(
        |source| Privileged::Image {
            path: image.path.clone(),
            format: image.format.name(),
            log: Some("the FUSE program gave up: the file is damaged or of another kind".into()),
            source,
        },
    )?;
    Ok(())
}

/// The package that brings the program on Debian and Ubuntu, and what the file system is
/// called in the table of mounts.
fn package(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Squashfs => "squashfuse",
        ImageFormat::Erofs => "erofsfuse",
    }
}
