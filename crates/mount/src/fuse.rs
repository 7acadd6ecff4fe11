// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images through FUSE: a program of the system serves them, as the user.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_privileged::operations::mount_fuse;
use cabane_privileged::{Error as Privileged, ImageFile, ImageFormat, SERVER_ENDED};
use cabane_process::child;
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
    /// A list of directories as in `PATH`, for programs that the user has installed. They come last. Those of
    /// relative paths do not count.
    pub search_path: OsString,
}

impl Default for FusePrograms {
    fn default() -> Self {
        let in_system = |name: &str| {
            ["/usr/bin", "/usr/local/bin", "/bin"].map(|directory| Path::new(directory).join(name))
        };
        Self {
            squashfs: [in_system("squashfuse_ll"), in_system("squashfuse")].concat(),
            erofs: in_system("erofsfuse").to_vec(),
            search_path: OsString::new(),
        }
    }
}

impl FusePrograms {
    /// Returns the programs of the system, and those in `PATH`, for images that the user serves.
    #[must_use]
    pub fn of_user(search_path: &OsStr) -> Self {
        Self { search_path: search_path.to_owned(), ..Self::default() }
    }

    /// Returns the program that would serve an image of this format.
    ///
    /// # Errors
    ///
    /// [`Error::FuseProgram`] if none is installed.
    pub fn find(&self, format: ImageFormat) -> Result<PathBuf, Error> {
        let programs = match format {
            ImageFormat::Squashfs => &self.squashfs,
            ImageFormat::Erofs => &self.erofs,
        };
        if let Some(program) = programs.iter().find(|path| path.is_file()) {
            return Ok(program.clone());
        }
        let mut names: Vec<&OsStr> = programs.iter().filter_map(|path| path.file_name()).collect();
        names.dedup();
        let directories = || env::split_paths(&self.search_path).filter(|path| path.is_absolute());
        let in_path = |name| directories().map(move |directory| directory.join(name));
        names.into_iter().flat_map(in_path).find(|path| path.is_file()).ok_or_else(|| {
            Error::FuseProgram { programs: programs.clone(), package: format.fuse_name() }
        })
    }
}

/// Makes a detached mount of an image and starts the program that serves it.
///
/// The mount is made here and only then is the program started that serves it: it
/// needs no privilege, and a request before the mount would make it give up.
pub(crate) fn attach(image: &ImageFile, programs: &FusePrograms) -> Result<OwnedFd, Error> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|source| Error::FuseDevice { source })?;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mount =
        mount_fuse(device.as_fd(), user, group, image.format.fuse_name()).map_err(|errno| {
            Privileged::Image {
                path: image.path.clone(),
                format: "fuse",
                log: None,
                source: errno.into(),
            }
        })?;
    serve(image, device.as_fd(), programs)?;
    drop(device);
    check_served(image, &mount)?;
    Ok(mount)
}

/// Starts the program that serves an image, which is mounted already, over a device.
///
/// # Errors
///
/// [`Error::FuseProgram`] if none is installed, and that of starting it.
pub fn serve(
    image: &ImageFile,
    device: BorrowedFd<'_>,
    programs: &FusePrograms,
) -> Result<(), Error> {
    let program = programs.find(image.format)?;
    let file = image.file.as_fd();
    child::start_detached(&mut command(&program, file, device), &[file, device])
        .map_err(|source| Privileged::Step { what: "start", path: program, source })?;
    Ok(())
}

/// Makes the command that serves an image over a device.
pub(crate) fn command(program: &Path, image: BorrowedFd<'_>, device: BorrowedFd<'_>) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .arg("-f")
        .arg(format!("/proc/self/fd/{}", image.as_raw_fd()))
        .arg(format!("/dev/fd/{}", device.as_raw_fd()));
    command
}

/// Asks for the root of the mount: a program that could not read the image has
/// ended, and the kernel answers for it.
fn check_served(image: &ImageFile, mount: &OwnedFd) -> Result<(), Error> {
    open_in_image(mount.as_fd(), Path::new(".")).and_then(|root| root.metadata()).map_err(
        |source| Privileged::Image {
            path: image.path.clone(),
            format: image.format.name(),
            log: Some(SERVER_ENDED.into()),
            source,
        },
    )?;
    Ok(())
}
