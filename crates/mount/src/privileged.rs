// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mounting for somebody who is not trusted, with the rights of root.
//!
//! What the caller says is a list of descriptors and mount points. A descriptor can
//! only be one that he could open; a mount point must stand in the policy, letter by
//! letter. Nothing else of his is looked up, followed or read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cabane_sys::namespace;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fcntl_getfl, fstat, openat2,
    statx,
};
use rustix::mount::{MoveMountFlags, move_mount};

use crate::backend::make_slave;
use crate::privileged_root::{Assembly, PrivilegedRoot};
use crate::{Error, ImageFile, Policy, Stage, holder, trusted};

/// An image and the place for it.
#[derive(Debug)]
pub struct PrivilegedImage {
    /// The file, as the caller opened it.
    pub image: ImageFile,
    /// Where it is to be mounted.
    pub mount_point: PathBuf,
}

/// What the helper is to mount.
#[derive(Debug)]
pub struct PrivilegedPlan {
    /// A mount namespace to enter first, opened below `/proc` with the caller's rights.
    pub namespace: Option<File>,
    /// The images.
    pub images: Vec<PrivilegedImage>,
    /// What else is seen, if one of the images is to be the root file system: that with the
    /// mount point `/`.
    pub root: PrivilegedRoot,
    /// Where the images are copied on the node and mounted from, if they are.
    pub stage: Option<Stage>,
}

/// Tells whether the kernel may read an image file, by its descriptor.
///
/// # Errors
///
/// [`Error::Refused`] with the reason.
pub fn check_image(policy: &Policy, file: BorrowedFd<'_>, name: &Path) -> Result<(), Error> {
    let refused = |reason| {
        Err(Error::Refused {
            image: name.to_owned(),
            reason,
        })
    };
    let failed = || Error::step("look at", name);
    // A descriptor that is only a place can be had without the right to read.
    let mode = fcntl_getfl(file).map_err(failed())?;
    let access = mode & OFlags::RWMODE;
    if mode.contains(OFlags::PATH) || (access != OFlags::RDONLY && access != OFlags::RDWR) {
        return refused("it is not opened for reading");
    }
    let found = fstat(file).map_err(failed())?;
    // The files of `/proc` say that they are plain, and empty.
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_size == 0 {
        return refused("it is no plain file with something in it");
    }
    if !policy.allows_image(found.st_uid, found.st_mode) {
        return refused("the policy does not trust its owner, or others can write to it");
    }
    // What a FUSE server says about owners is worth nothing, and it can stop whoever
    // reads from it.
    if trusted::is_on_fuse(file).map_err(failed())? {
        return refused("it lies on a FUSE file system");
    }
    Ok(())
}

/// Carries out a plan of the user with this number. The process must have one thread
/// and the rights of root.
///
/// On success it is in a mount namespace of its own with the images in place, or in that
/// of the process that was named, if there are none. Its working directory is `/`.
///
/// # Errors
///
/// What is not allowed, before anything is mounted; and the first step that failed.
pub fn perform_privileged(plan: PrivilegedPlan, policy: &Policy, user: u32) -> Result<(), Error> {
    let PrivilegedPlan {
        namespace,
        images,
        mut root,
        stage,
    } = plan;
    for PrivilegedImage { image, mount_point } in &images {
        if mount_point == Path::new("/") && !policy.root_images {
            return Err(Error::RootNotAllowed);
        }
        if !policy.allows_mount_point(mount_point) {
            return Err(Error::MountPointNotAllowed {
                path: mount_point.clone(),
            });
        }
        check_image(policy, image.file.as_fd(), &image.path)?;
    }
    let (images, mount_points): (Vec<_>, Vec<_>) = images
        .into_iter()
        .map(|image| (image.image, image.mount_point))
        .unzip();
    let has_root = mount_points.iter().any(|place| place == Path::new("/"));
    if has_root {
        root.check(&mount_points)?;
        root.add(&policy.root_binds, &mount_points);
    }
    let opened: Vec<&ImageFile> = images.iter().collect();
    // Before a namespace is entered that others may have furnished: what is found in
    // its `/proc` and `/dev` is not to be relied on.
    let mounts = holder::obtain(&opened, stage, policy, user)?;
    if has_root {
        if namespace.is_some() {
            return Err(Error::RootRefused {
                path: "/".into(),
                reason: "the process has a root file system already",
            });
        }
        return put_in_own_root(mounts, mount_points, root);
    }
    if let Some(namespace) = namespace {
        enter_of_caller(&namespace)?;
        if mounts.is_empty() {
            // He could go there by way of a process of his own, too, which he controls;
            // a debugger finds the files of a program only where that program is.
            return Ok(());
        }
    }
    put_in_own_namespace(mounts, mount_points)
}

/// Attaches mounts in a new mount namespace, a copy of that in which the process is.
pub(crate) fn put_in_own_namespace(
    mounts: Vec<OwnedFd>,
    mount_points: Vec<PathBuf>,
) -> Result<(), Error> {
    enter_own_namespace()?;
    put_in_place(mounts, mount_points)
}

/// Makes a new mount namespace in which one of the mounts is the root.
fn put_in_own_root(
    mounts: Vec<OwnedFd>,
    mount_points: Vec<PathBuf>,
    root: PrivilegedRoot,
) -> Result<(), Error> {
    let mut others: Vec<_> = mount_points.into_iter().zip(mounts).collect();
    let first = others.iter().position(|(place, _)| place == Path::new("/"));
    let (_, image) = others.swap_remove(first.unwrap_or_default());
    let assembly = Assembly::gather(image, root, others)?;
    enter_own_namespace()?;
    assembly.put_in_place()
}

/// Makes a new mount namespace, a copy of that in which the process is, and enters it.
pub(crate) fn enter_own_namespace() -> Result<(), Error> {
    namespace::unshare_mounts().map_err(|source| Error::Namespace {
        user: false,
        source,
    })?;
    make_slave()
}

/// Enters the mount namespace of another process of the caller. One that belongs to a
/// user namespace he can enter by himself.
fn enter_of_caller(namespace: &File) -> Result<(), Error> {
    let failed = |source| Error::Step {
        what: "enter the mount namespace of",
        path: "the process".into(),
        source,
    };
    let is_ours = namespace::belongs_to_own_user_namespace(namespace.as_fd()).map_err(failed)?;
    if !is_ours || !namespace::is_mount_namespace(namespace.as_fd()) {
        return Err(Error::Refused {
            image: "the process".into(),
            reason: "its mount namespace belongs to another user namespace",
        });
    }
    if is_confined()? {
        return Err(Error::Refused {
            image: "the process".into(),
            reason: "the caller is confined to a part of what there is to see",
        });
    }
    namespace::enter_mounts(namespace.as_fd()).map_err(failed)
}

/// Tells whether the root of the process is not that of its mount namespace, as after
/// `chroot`: with a namespace one enters its root. Ends up at the latter.
fn is_confined() -> Result<bool, Error> {
    let root = || {
        let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        statx(CWD, "/", AtFlags::empty(), flags)
            .map(|found| {
                let device = (found.stx_dev_major, found.stx_dev_minor);
                (device, found.stx_ino, found.stx_mnt_id)
            })
            .map_err(Error::step("look at", "/"))
    };
    let seen = root()?;
    let failed = |source| Error::Step {
        what: "look at the mount namespace of",
        path: "the caller".into(),
        source,
    };
    let own = namespace::own_mounts().map_err(failed)?;
    namespace::enter_mounts(own.as_fd()).map_err(failed)?;
    Ok(root()? != seen)
}

/// Attaches the mounts, the one nearest to the root first: one mount point may lie in
/// the tree of another image.
fn put_in_place(mounts: Vec<OwnedFd>, mount_points: Vec<PathBuf>) -> Result<(), Error> {
    let mut pairs: Vec<_> = mount_points.into_iter().zip(mounts).collect();
    pairs.sort_by_key(|(path, _)| path.components().count());
    let mut done: Vec<(PathBuf, OwnedFd)> = Vec::with_capacity(pairs.len());
    for (path, mount) in pairs {
        let around = done.iter().rev().find(|(outer, _)| path.starts_with(outer));
        let place = match around {
            Some((outer, _)) if *outer == path => {
                return Err(Error::Refused {
                    image: path,
                    reason: "two images are to be mounted there",
                });
            }
            Some((outer, tree)) => open_in_tree(tree.as_fd(), outer, &path)?,
            None => trusted::open_directory(&path)?,
        };
        let whole =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mount, "", &place, "", whole).map_err(|errno| Error::MountPoint {
            path: path.clone(),
            source: errno.into(),
        })?;
        done.push((path, mount));
    }
    Ok(())
}

/// Opens a mount point inside an image. Who made the image put it there, so no link is
/// followed and nothing that leads out is taken.
fn open_in_tree(tree: BorrowedFd<'_>, outer: &Path, path: &Path) -> Result<OwnedFd, Error> {
    let failed = |source: rustix::io::Errno| Error::MountPoint {
        path: path.to_owned(),
        source: source.into(),
    };
    let relative = path
        .strip_prefix(outer)
        .map_err(|_| failed(rustix::io::Errno::INVAL))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    openat2(tree, relative, flags, Mode::empty(), resolve).map_err(failed)
}
