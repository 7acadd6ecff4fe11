// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The root file system of an image in place of the host's.
//!
//! The image is attached at some directory that every host has, and becomes the root; what
//! was there goes away, but for what was opened before. Writing, where that is requested,
//! goes to a layer of its own over the image, by overlayfs.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cabane_privileged::operations::{attach, change_root, kernel_log, memory};
use cabane_privileged::shadow::{Kind, Shadows, open_source, scratch};
use cabane_privileged::{KERNEL, replace_root};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::{Backend, Error};

/// Where writing to the root file system of an image goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Nowhere: it is read-only.
    #[default]
    None,
    /// Into memory; it is gone with the last process.
    Memory,
    /// Into this directory, where it is found again.
    Kept(PathBuf),
}

/// The directories of a layer that is kept, opened before anything is covered.
#[derive(Debug)]
pub(crate) struct OpenedLayer {
    upper: OwnedFd,
    work: OwnedFd,
}

impl Layer {
    /// Opens a layer that is kept, and takes it for this process and its children.
    pub(crate) fn open(&self) -> Result<Option<OpenedLayer>, Error> {
        let Self::Kept(directory) = self else {
            return Ok(None);
        };
        let failed = |source| Error::Layer { path: directory.clone(), log: None, source };
        let lock = fs::File::open(directory).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::LayerInUse { path: directory.clone() });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let make = |name: &str| {
            let path = directory.join(name);
            match DirBuilder::new().mode(0o755).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, &path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))
        };
        let opened = OpenedLayer { upper: make("upper")?, work: make("work")? };
        // Two environments that write to one layer would destroy it: the command and what it
        // starts keep the lock.
        fcntl_setfd(lock.as_fd(), FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
        std::mem::forget(lock);
        Ok(Some(opened))
    }
}

/// Makes the root of an image the root of this process, which must be in a mount namespace
/// of its own, with the kernel's directories in it.
pub(crate) fn enter(
    shadows: &mut Shadows,
    image: &OwnedFd,
    layer: &Layer,
    opened: Option<&OpenedLayer>,
    backend: Backend,
) -> Result<(), Error> {
    let kernel = KERNEL.map(|place| (Path::new(place), open_source(Path::new(place))));
    replace(image, layer, opened, backend)?;
    if *layer != Layer::None {
        shadows.make_in(Path::new("/"))?;
    }
    // All of these before any is attached: nothing is looked up in what others furnish.
    for place in KERNEL {
        shadows.ensure(Path::new(place), Kind::Directory)?;
    }
    for (place, mount) in kernel {
        attach(&mount?, place)?;
    }
    Ok(())
}

/// Makes the root of an image the root of this process.
fn replace(
    image: &OwnedFd,
    layer: &Layer,
    opened: Option<&OpenedLayer>,
    backend: Backend,
) -> Result<(), Error> {
    if *layer == Layer::None {
        return Ok(replace_root(image)?);
    }
    let place = scratch()?;
    let cover =
        memory("0755", None).map_err(Error::step("make a file system in memory for", &place))?;
    attach(&cover, &place)?;
    let make = |name: &str| {
        let path = place.join(name);
        let made = DirBuilder::new().mode(0o755).create(&path);
        made.map(|()| path.clone()).map_err(|source| cabane_privileged::Error::Step {
            what: "make",
            path,
            source,
        })
    };
    let (lower, root) = (make("lower")?, make("root")?);
    attach(image, &lower)?;
    let (upper, work) = match opened {
        Some(opened) => (by_descriptor(&opened.upper), by_descriptor(&opened.work)),
        None => (make("upper")?, make("work")?),
    };
    let overlay = overlay(&lower, &upper, &work, backend).map_err(|(errno, log)| Error::Layer {
        path: match layer {
            Layer::Kept(directory) => directory.clone(),
            _ => root.clone(),
        },
        log,
        source: errno.into(),
    })?;
    attach(&overlay, &root)?;
    Ok(change_root(&root)?)
}

fn by_descriptor(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

fn overlay(
    lower: &Path,
    upper: &Path,
    work: &Path,
    backend: Backend,
) -> Result<OwnedFd, (Errno, Option<String>)> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| (errno, None))?;
    let set = |key, path: &Path| fsconfig_set_string(context.as_fd(), key, path);
    let made = fsconfig_set_string(context.as_fd(), "source", "cabane")
        .and_then(|()| set("lowerdir", lower))
        .and_then(|()| set("upperdir", upper))
        .and_then(|()| set("workdir", work))
        .and_then(|()| match backend {
            // What overlayfs notes about a file is in attributes; users may not write
            // those that are meant for it.
            Backend::UserNamespace => fsconfig_set_flag(context.as_fd(), "userxattr"),
            _ => Ok(()),
        })
        .and_then(|()| fsconfig_create(context.as_fd()));
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    made.and_then(|()| fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes))
        .map_err(|errno| (errno, kernel_log(context.as_fd())))
}
