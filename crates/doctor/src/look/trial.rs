// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Trying to mount, with the code that mounts for users.
//!
//! Each trial is made by a child: its namespaces, and with them its mounts, the loop
//! device and the FUSE program, end with it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_mount::{
    Backend, Error, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation,
    PrivilegedError as Privileged, Way, attach, enter_private_namespace, open_in_image, perform,
};
use rustix::fs::makedev;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsopen};

use super::kernel::{loops, remove_surplus};
use super::{MOUNTING, QUICK, number_in, with_cause};
use crate::facts::{
    Answer, AsRoot, Failure, Fuse, NoAnswer, Process, Program, Step, Trial, UserNamespaces,
};
use crate::probe::within;

/// An image with the files `probe` and `zeros`, the latter compressed with zstd.
const SQUASHFS: &[u8] = include_bytes!("../probe.squashfs");
/// An image with the file `probe`.
const EROFS: &[u8] = include_bytes!("../probe.erofs");
/// What is in the file `probe` of both.
const CONTENT: &str = "cabane\n";
/// The numbers of `/dev/fuse` (`linux/miscdevice.h`).
const FUSE_DEVICE: (u32, u32) = (10, 229);
/// A block device has no smaller parts than that.
const WHOLE: usize = 4096;

/// Makes a user namespace and mounts something in memory there.
pub(crate) fn try_user_namespaces() -> UserNamespaces {
    UserNamespaces {
        trial: trial(|| {
            let operations = vec![Operation::Hide { directory: mount_point() }];
            Ok(perform(plan(FusePrograms::default(), operations))?)
        }),
        most: number_in("/proc/sys/user/max_user_namespaces"),
        unprivileged: number_in("/proc/sys/kernel/unprivileged_userns_clone"),
        restricted: number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    }
}

/// Looks for what FUSE needs, and mounts an image through it.
pub(crate) fn try_fuse(programs: &FusePrograms, namespaces: &UserNamespaces) -> Answer<Fuse> {
    let squashfs = program(programs, ImageFormat::Squashfs);
    let erofs = program(programs, ImageFormat::Erofs);
    let device = within(QUICK, || {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        match device.and_then(|device| device.metadata()) {
            Ok(found) if found.rdev() == makedev(FUSE_DEVICE.0, FUSE_DEVICE.1) => Ok(()),
            Ok(_) => Err(Errno::NXIO.raw_os_error()),
            Err(error) => Err(error.raw_os_error().unwrap_or_default()),
        }
    })?;
    let through = |format, program: &Option<Program>| {
        if namespaces.trial.works() && device.is_ok() && program.is_some() {
            try_through_fuse(programs, format)
        } else {
            Trial::NotTried
        }
    };
    Ok(Fuse {
        squashfs_trial: through(ImageFormat::Squashfs, &squashfs),
        erofs_trial: through(ImageFormat::Erofs, &erofs),
        device,
        squashfs,
        erofs,
    })
}

fn program(programs: &FusePrograms, format: ImageFormat) -> Option<Program> {
    let path = within(QUICK, || programs.find(format).ok()).ok()??;
    Some(super::programs::program(&path, "--version"))
}

fn try_through_fuse(programs: &FusePrograms, format: ImageFormat) -> Trial {
    trial(|| {
        let place = mount_point();
        let operation = Operation::Image {
            image: probe_image(format)?,
            way: Way::Fuse,
            mount_point: place.clone(),
        };
        perform(plan(programs.clone(), vec![operation]))?;
        content(File::open(place.join("probe")))
    })
}

/// Mounts images as root does, but keeps none of them for the node.
pub(crate) fn try_as_root(process: &Process) -> Option<AsRoot> {
    if !process.counts_as_root {
        return None;
    }
    let before = loops();
    let mounted = |format| trial(|| mount_as_root(format));
    let tried = AsRoot {
        squashfs: mounted(ImageFormat::Squashfs),
        erofs: mounted(ImageFormat::Erofs),
        erofs_from_file: trial(erofs_from_file),
    };
    remove_surplus(&before);
    Some(tried)
}

fn mount_as_root(format: ImageFormat) -> Result<(), Failure> {
    let image = probe_image(format)?;
    enter_private_namespace(Backend::Root)?;
    let mount = attach(Backend::Root, &image, &FusePrograms::default())?;
    content(open_in_image(mount.as_fd(), Path::new("probe")))
}

/// The way of the kernel without a loop device, and no other.
fn erofs_from_file() -> Result<(), Failure> {
    let image = probe_image(ImageFormat::Erofs)?;
    enter_private_namespace(Backend::Root)?;
    let source = format!("/proc/self/fd/{}", image.file.as_raw_fd());
    let made = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        fsconfig_set_string(context.as_fd(), "source", source.as_str())?;
        fsconfig_set_flag(context.as_fd(), "ro")?;
        fsconfig_create(context.as_fd())
    });
    made.map_err(|errno| failed(Step::Image, &errno.into()))
}

/// A plain file that has no name: the kernel mounts EROFS from no other.
fn probe_image(format: ImageFormat) -> Result<ImageFile, Failure> {
    let file = written_image(format).map_err(|error| {
        let text = "cannot write a trial image to /var/tmp, /tmp or /dev/shm";
        Failure { text: format!("{text}: {error}"), ..failed(Step::Other, &error) }
    })?;
    Ok(ImageFile { file, path: PathBuf::from("a trial image"), format, verity: None })
}

fn written_image(format: ImageFormat) -> io::Result<File> {
    let bytes = match format {
        ImageFormat::Squashfs => SQUASHFS,
        ImageFormat::Erofs => EROFS,
    };
    let mut file = ["/var/tmp", "/tmp", "/dev/shm"]
        .iter()
        .map(tempfile::tempfile_in)
        .find(Result::is_ok)
        .unwrap_or_else(tempfile::tempfile)?;
    file.write_all(bytes)?;
    file.write_all(&vec![0; bytes.len().next_multiple_of(WHOLE) - bytes.len()])?;
    file.sync_data()?;
    Ok(file)
}

/// Any directory will do: no one else sees what is mounted there.
fn mount_point() -> PathBuf {
    fs::canonicalize("/tmp").unwrap_or_else(|_| "/tmp".into())
}

fn plan(fuse: FusePrograms, operations: Vec<Operation>) -> MountPlan {
    MountPlan { backend: Backend::UserNamespace, fuse, operations }
}

fn content(file: io::Result<File>) -> Result<(), Failure> {
    let mut text = String::new();
    let read = file.and_then(|mut file| file.read_to_string(&mut text));
    match read.map_err(|error| failed(Step::Image, &error))? {
        _ if text == CONTENT => Ok(()),
        _ => {
            let text = "the files of the image have other contents than they should";
            Err(failed(Step::Image, &io::Error::other(text)))
        }
    }
}

fn failed(step: Step, error: &io::Error) -> Failure {
    Failure { step, text: error.to_string(), errno: error.raw_os_error(), hint: None }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (step, errno) = match &error {
            Error::UserNamespace { source } => (Step::Namespace, source.raw_os_error()),
            Error::FuseDevice { source } => (Step::FuseDevice, source.raw_os_error()),
            Error::FuseProgram { .. } => (Step::FuseProgram, None),
            Error::Mount(error) => match error {
                Privileged::Namespace { source } => (Step::Namespace, source.raw_os_error()),
                Privileged::LoopDevice { source } => (Step::LoopDevice, source.raw_os_error()),
                Privileged::Image { source, .. } => (Step::Image, source.raw_os_error()),
                Privileged::Step { source, .. } => (Step::Other, source.raw_os_error()),
                _ => (Step::Other, None),
            },
            _ => (Step::Other, None),
        };
        Self { step, text: with_cause(&error), errno, hint: error.hint() }
    }
}

fn trial(make: impl FnOnce() -> Result<(), Failure>) -> Trial {
    let silent = |reason: NoAnswer| Err(failed(Step::Other, &io::Error::other(reason)));
    match within(MOUNTING, make).unwrap_or_else(silent) {
        Ok(()) => Trial::Works,
        Err(failure) => Trial::Fails(failure),
    }
}
