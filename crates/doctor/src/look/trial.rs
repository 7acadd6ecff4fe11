// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Trying to mount, with the code that mounts for users.
//!
//! Each trial is made by a child: its namespaces, and with them its mounts, the loop
//! device and the FUSE program, end with it.

use std::error::Error as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_mount::{
    Backend, Error, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation,
    PrivilegedError as Privileged, attach, enter_private_namespace, open_in_image, perform,
};
use rustix::fs::makedev;
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsopen};

use super::kernel::{loops, remove_surplus};
use super::programs::version_of;
use super::{MOUNTING, QUICK, number_in};
use crate::facts::{Answer, AsRoot, Failure, Fuse, Process, Program, Step, Trial, UserNamespaces};
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
    let trial = within(MOUNTING, || {
        let operations = vec![Operation::Hide { directory: mount_point() }];
        outcome(perform(plan(FusePrograms::default(), operations)))
    });
    UserNamespaces {
        trial: settled(&trial),
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
    });
    let device = match device {
        Answer::Known(device) => device,
        Answer::Silent(seconds) => return Answer::Silent(seconds),
        Answer::Failed(reason) => return Answer::Failed(reason),
    };
    let through = |format, program: &Option<Program>| {
        if namespaces.trial.works() && device.is_ok() && program.is_some() {
            try_through_fuse(programs, format)
        } else {
            Trial::NotTried
        }
    };
    Answer::Known(Fuse {
        squashfs_trial: through(ImageFormat::Squashfs, &squashfs),
        erofs_trial: through(ImageFormat::Erofs, &erofs),
        device,
        squashfs,
        erofs,
    })
}

fn program(programs: &FusePrograms, format: ImageFormat) -> Option<Program> {
    let found = within(QUICK, || programs.find(format).ok().map(Path::to_owned));
    let Answer::Known(Some(path)) = found else {
        return None;
    };
    Some(Program {
        version: version_of(&path, "--version"),
        path: path.to_string_lossy().into_owned(),
    })
}

fn try_through_fuse(programs: &FusePrograms, format: ImageFormat) -> Trial {
    settled(&within(MOUNTING, || {
        let place = mount_point();
        let image = match probe_image(format) {
            Ok(image) => image,
            Err(error) => return no_image(&error),
        };
        let operation = Operation::Image { image, mount_point: place.clone() };
        match perform(plan(programs.clone(), vec![operation])) {
            Ok(()) => content(File::open(place.join("probe"))),
            Err(error) => outcome(Err(error)),
        }
    }))
}

/// Mounts images as root does, but keeps none of them for the node.
pub(crate) fn try_as_root(process: &Process) -> Option<AsRoot> {
    if !process.counts_as_root {
        return None;
    }
    let before = loops();
    let mounted = |format| settled(&within(MOUNTING, || mount_as_root(format)));
    let tried = AsRoot {
        squashfs: mounted(ImageFormat::Squashfs),
        erofs: mounted(ImageFormat::Erofs),
        erofs_from_file: settled(&within(MOUNTING, erofs_from_file)),
    };
    remove_surplus(&before);
    Some(tried)
}

fn mount_as_root(format: ImageFormat) -> Trial {
    let image = match probe_image(format) {
        Ok(image) => image,
        Err(error) => return no_image(&error),
    };
    let mounted = enter_private_namespace(Backend::Root)
        .and_then(|()| attach(Backend::Root, &image, &FusePrograms::default()));
    match mounted {
        Ok(mount) => content(open_in_image(mount.as_fd(), Path::new("probe"))),
        Err(error) => outcome(Err(error)),
    }
}

/// The way of the kernel without a loop device, and no other.
fn erofs_from_file() -> Trial {
    let image = match probe_image(ImageFormat::Erofs) {
        Ok(image) => image,
        Err(error) => return no_image(&error),
    };
    if let Err(error) = enter_private_namespace(Backend::Root) {
        return outcome(Err(error));
    }
    let source = format!("/proc/self/fd/{}", image.file.as_raw_fd());
    let made = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        fsconfig_set_string(context.as_fd(), "source", source.as_str())?;
        fsconfig_set_flag(context.as_fd(), "ro")?;
        fsconfig_create(context.as_fd())
    });
    match made {
        Ok(()) => Trial::Works,
        Err(errno) => failed(Step::Image, &io::Error::from(errno)),
    }
}

/// A plain file that has no name: the kernel mounts EROFS from no other.
fn probe_image(format: ImageFormat) -> io::Result<ImageFile> {
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
    Ok(ImageFile { file, path: PathBuf::from("a trial image"), format })
}

/// Any directory will do: no one else sees what is mounted there.
fn mount_point() -> PathBuf {
    fs::canonicalize("/tmp").unwrap_or_else(|_| "/tmp".into())
}

fn plan(fuse: FusePrograms, operations: Vec<Operation>) -> MountPlan {
    MountPlan { backend: Backend::UserNamespace, fuse, operations }
}

fn content(file: io::Result<File>) -> Trial {
    let mut text = String::new();
    match file.and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) if text == CONTENT => Trial::Works,
        Ok(_) => failed(
            Step::Image,
            &io::Error::other("the files of the image have other contents than they should"),
        ),
        Err(error) => failed(Step::Image, &error),
    }
}

fn no_image(error: &io::Error) -> Trial {
    Trial::Fails(Failure {
        step: Step::Other,
        text: format!("cannot write a trial image to /var/tmp, /tmp or /dev/shm: {error}"),
        errno: error.raw_os_error(),
        hint: None,
    })
}

fn failed(step: Step, error: &io::Error) -> Trial {
    Trial::Fails(Failure { step, text: error.to_string(), errno: error.raw_os_error(), hint: None })
}

fn outcome(result: Result<(), Error>) -> Trial {
    let Err(error) = result else {
        return Trial::Works;
    };
    let source = error.source().map(ToString::to_string);
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
    Trial::Fails(Failure {
        step,
        text: match source {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
        errno,
        hint: error.hint(),
    })
}

fn settled(answer: &Answer<Trial>) -> Trial {
    match answer.known() {
        Ok(trial) => trial.clone(),
        Err(text) => Trial::Fails(Failure { step: Step::Other, text, errno: None, hint: None }),
    }
}
