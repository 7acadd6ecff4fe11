// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mounting for a user who is not trusted, with the rights of root.
//!
//! What the caller says is a list of descriptors and mount points. A descriptor can
//! only be one that they could open; a mount point must be in the policy, letter by
//! letter. Nothing else of theirs is looked up, followed or read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cabane_sys::mount_table::{Mount, MountId};
use cabane_sys::namespace;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, StatxFlags, openat2, statx};
use rustix::io::Errno;

use crate::cache::{self, Wanted};
use crate::fuse::{ServedImage, Server};
use crate::operations::{self, enter_own_namespace};
use crate::root::{Assembly, PrivilegedRoot};
use crate::unpacked::not_there;
use crate::verity::{Voucher, voucher};
use crate::{
    Caller, Copies, Error, ImageDigest, ImageFile, ImageFormat, Policy, UnpackedTree, judge,
    trusted,
};

/// An image and the place for it.
#[derive(Debug)]
pub struct PrivilegedImage {
    source: Source,
    mount_point: PathBuf,
}

/// Who reads an image.
#[derive(Debug)]
enum Source {
    /// The kernel. The mounts are those of the file and of its hash tree, where the caller has opened
    /// them.
    File { image: ImageFile, mounts: [Option<MountId>; 2] },
    /// A process of the caller.
    Served(ServedImage),
    /// The kernel, where root has unpacked the image; opened when the policy is known.
    Requested(ImageDigest),
    /// The same, opened and locked.
    Unpacked(UnpackedTree),
}

impl PrivilegedImage {
    /// Takes an image that the caller opened, and where it is to be mounted. To be called with
    /// the rights of the caller: here the kernel returns the mount of the file.
    #[must_use]
    pub fn opened_by_caller(image: ImageFile, mount_point: PathBuf) -> Self {
        let tree = image.verity.as_ref().and_then(|verity| judge::mount_of(verity.tree.as_fd()));
        let mounts = [judge::mount_of(image.file.as_fd()), tree];
        Self { source: Source::File { image, mounts }, mount_point }
    }

    /// Takes an image that was opened for the caller, and where it is to be mounted. The
    /// file system gets no request.
    #[must_use]
    pub fn opened_for_caller(image: ImageFile, mount_point: PathBuf) -> Self {
        Self { source: Source::File { image, mounts: [None; 2] }, mount_point }
    }

    /// Takes an image that a process of the caller serves, whose group is given, and where it is to
    /// be mounted. `path` is for messages.
    #[must_use]
    pub fn served(
        server: Box<dyn Server>,
        path: PathBuf,
        format: ImageFormat,
        group: u32,
        mount_point: PathBuf,
    ) -> Self {
        Self { source: Source::Served(ServedImage { server, format, group, path }), mount_point }
    }

    /// Takes the digest of an image that root has unpacked on this node, and where it is to be mounted.
    #[must_use]
    pub fn requested(digest: ImageDigest, mount_point: PathBuf) -> Self {
        Self { source: Source::Requested(digest), mount_point }
    }

    /// Takes an unpacked image that is locked, and where it is to be mounted.
    #[must_use]
    pub fn unpacked(tree: UnpackedTree, mount_point: PathBuf) -> Self {
        Self { source: Source::Unpacked(tree), mount_point }
    }

    /// Opens an image that was requested by its digest.
    fn open(&mut self, policy: &Policy) -> Result<(), Error> {
        if let Source::Requested(digest) = self.source {
            let tree = UnpackedTree::open_locked(&policy.unpacked_images, digest)?;
            self.source = Source::Unpacked(tree.ok_or_else(|| not_there(policy, digest))?);
        }
        Ok(())
    }
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
    /// What copies the images on the node, if the copies are to be mounted.
    pub copies: Option<Box<dyn Copies>>,
}

/// Carries out a plan of a user. The process must have the rights of root, and one thread
/// unless the caller is that of a thread.
///
/// On success it is in a mount namespace of its own with the images in place, or in that
/// of the process that was named, if there are none. Its working directory is `/`.
///
/// # Errors
///
/// What is not allowed, before anything is mounted; and the first step that failed.
pub fn perform_privileged(
    mut plan: PrivilegedPlan,
    policy: &Policy,
    caller: &Caller,
) -> Result<(), Error> {
    let performed = perform(&mut plan, policy, caller);
    // To close a file asks its file system, which may be one that the caller serves.
    let closed = caller.act(|| {
        drop(plan);
        Ok(())
    });
    performed.and(closed)
}

/// Does the same, and closes nothing that the caller passed.
fn perform(plan: &mut PrivilegedPlan, policy: &Policy, caller: &Caller) -> Result<(), Error> {
    let PrivilegedPlan { namespace, images, root, copies } = plan;
    let found = check(images, policy, caller)?;
    let mount_points: Vec<_> = images.iter().map(|image| image.mount_point.clone()).collect();
    let has_root = mount_points.iter().any(|place| place == Path::new("/"));
    if has_root {
        root.check(&mount_points)?;
        caller.act(|| {
            root.add(&policy.root_binds, &mount_points);
            Ok(())
        })?;
    }
    let mut found = found.into_iter();
    let files = images.iter().filter_map(|image| match &image.source {
        Source::File { image, .. } => {
            let Checked { found, voucher } = found.next()?;
            Some(Wanted { image, found, voucher })
        }
        _ => None,
    });
    let wanted: Vec<_> = files.collect();
    // Before a namespace is entered that others may have furnished: what is found in
    // its `/proc` and `/dev` is not to be relied on.
    let mut from_kernel = cache::obtain(&wanted, copies.as_deref(), policy, caller)?.into_iter();
    images.iter_mut().try_for_each(|image| image.open(policy))?;
    let mounts = images.iter().filter_map(|image| match &image.source {
        Source::File { .. } => from_kernel.next().map(Ok),
        Source::Served(served) => Some(served.mount(caller)),
        Source::Unpacked(tree) => Some(tree.mount()),
        Source::Requested(digest) => Some(Err(not_there(policy, *digest))),
    });
    let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
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
        enter_of_caller(namespace)?;
        if mounts.is_empty() {
            // They could go there by way of a process of their own, too, which they control;
            // a debugger finds the files of a program only where that program is.
            return Ok(());
        }
    }
    put_in_own_namespace(mounts, mount_points, caller)
}

/// A file that the kernel may read.
struct Checked {
    /// How it looks.
    found: Stat,
    /// Who vouches for its content, if no one else is trusted.
    voucher: Option<Voucher>,
}

/// Checks what is requested against the policy, and returns what the kernel is to read.
fn check(
    images: &[PrivilegedImage],
    policy: &Policy,
    caller: &Caller,
) -> Result<Vec<Checked>, Error> {
    let mut files = Vec::with_capacity(images.len());
    for PrivilegedImage { source, mount_point } in images {
        if mount_point == Path::new("/") && !policy.root_images {
            return Err(Error::RootNotAllowed);
        }
        if !policy.allows_mount_point(mount_point) {
            return Err(Error::MountPointNotAllowed { path: mount_point.clone() });
        }
        match source {
            Source::File { image, mounts } => {
                let trust = image.trust();
                let check = |(file, mount): (BorrowedFd<'_>, &Option<MountId>)| {
                    judge::check_mount(policy, file, *mount, &image.path, trust)
                };
                let mounts =
                    image.opened().zip(mounts).map(check).collect::<Result<Vec<_>, _>>()?;
                files.push((image, mounts));
            }
            Source::Served(served) => {
                let others = images.iter().map(|image| image.mount_point.as_path());
                check_served(policy, &served.path, mount_point, others)?;
            }
            Source::Requested(_) | Source::Unpacked(_) if mount_point == Path::new("/") => {
                return Err(Error::RootRefused {
                    path: mount_point.clone(),
                    reason: "an unpacked image is no root file system",
                });
            }
            Source::Requested(_) | Source::Unpacked(_) => {}
        }
    }
    // None of them lies where a user could let anyone wait.
    let look = |(image, mounts): &(&ImageFile, Vec<Mount>)| {
        let verity = image.verity.as_ref();
        let voucher = verity.map(|verity| voucher(policy, verity, &image.path)).transpose()?;
        let looks = image.opened().zip(mounts).map(|(file, mount)| {
            judge::check_file(policy, file, mount, &image.path, image.trust())
        });
        // The first is that of the image.
        let looks = looks.collect::<Result<Vec<_>, _>>()?;
        Ok(looks.into_iter().next().map(|found| Checked { found, voucher }))
    };
    let checked = caller.act(|| files.iter().map(look).collect::<Result<Vec<_>, _>>())?;
    Ok(checked.into_iter().flatten().collect())
}

/// Tells whether an image may be served through FUSE. Its content is no concern of the kernel's.
///
/// # Errors
///
/// [`Error::Refused`] if the policy forbids it, and where root would have to look into the image.
pub fn check_served<'a>(
    policy: &Policy,
    image: &Path,
    mount_point: &Path,
    mut others: impl Iterator<Item = &'a Path>,
) -> Result<(), Error> {
    let refused = |reason: &'static str| {
        Err(Error::Refused { image: image.to_owned(), reason: reason.into() })
    };
    if !policy.fuse_images {
        return refused("the policy allows no images through FUSE");
    }
    if mount_point == Path::new("/") {
        return refused("root would have to look into it through FUSE");
    }
    if others.any(|other| other != mount_point && other.starts_with(mount_point)) {
        return refused("another image is mounted inside it, where root may not look through FUSE");
    }
    Ok(())
}

/// Attaches mounts in a new mount namespace, a copy of that in which the process is.
///
/// # Errors
///
/// The first step that failed.
pub fn put_in_own_namespace(
    mounts: Vec<OwnedFd>,
    mount_points: Vec<PathBuf>,
    caller: &Caller,
) -> Result<(), Error> {
    enter_own_namespace()?;
    put_in_place(mounts, mount_points, caller)
}

/// Makes a new mount namespace in which one of the mounts is the root.
fn put_in_own_root(
    mounts: Vec<OwnedFd>,
    mount_points: Vec<PathBuf>,
    root: &mut PrivilegedRoot,
) -> Result<(), Error> {
    let mut others: Vec<_> = mount_points.into_iter().zip(mounts).collect();
    let first = others.iter().position(|(place, _)| place == Path::new("/"));
    let (_, image) = others.swap_remove(first.unwrap_or_default());
    let assembly = Assembly::gather(image, root, others)?;
    enter_own_namespace()?;
    assembly.put_in_place()
}

/// Enters the mount namespace of another process of the caller. One that belongs to a
/// user namespace that they can enter themselves.
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
            reason: "its mount namespace belongs to another user namespace".into(),
        });
    }
    if is_confined()? {
        return Err(Error::Refused {
            image: "the process".into(),
            reason: "the caller is confined to a part of what there is to see".into(),
        });
    }
    operations::enter(namespace.as_fd()).map_err(failed)
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
    operations::enter(own.as_fd()).map_err(failed)?;
    Ok(root()? != seen)
}

/// Attaches the mounts, the one nearest to the root first: one mount point may be in
/// the tree of another image. The places are looked up with the rights of the caller: in the
/// namespace of one of their processes, they may have furnished them.
fn put_in_place(
    mounts: Vec<OwnedFd>,
    mount_points: Vec<PathBuf>,
    caller: &Caller,
) -> Result<(), Error> {
    let mut pairs: Vec<_> = mount_points.into_iter().zip(mounts).collect();
    pairs.sort_by_key(|(path, _)| path.components().count());
    let places = caller.act(|| open_places(&pairs))?;
    for ((path, mount), place) in pairs.iter().zip(&places) {
        operations::attach_at(mount.as_fd(), place.as_fd())
            .map_err(|errno| Error::MountPoint { path: path.clone(), source: errno.into() })?;
    }
    Ok(())
}

fn open_places(pairs: &[(PathBuf, OwnedFd)]) -> Result<Vec<OwnedFd>, Error> {
    let mut places = Vec::with_capacity(pairs.len());
    for (index, (path, _)) in pairs.iter().enumerate() {
        let mut done = pairs.iter().take(index).rev();
        let around = done.find(|(outer, _)| path.starts_with(outer));
        places.push(match around {
            Some((outer, _)) if outer == path => {
                return Err(Error::Refused {
                    image: path.clone(),
                    reason: "two images are to be mounted there".into(),
                });
            }
            Some((outer, tree)) => open_in_tree(tree.as_fd(), outer, path)?,
            None => trusted::open_directory(path)?,
        });
    }
    Ok(places)
}

/// Opens a mount point inside an image. Who made the image put it there, so no link is
/// followed and nothing that leads out is taken.
fn open_in_tree(tree: BorrowedFd<'_>, outer: &Path, path: &Path) -> Result<OwnedFd, Error> {
    let failed = |source: Errno| Error::MountPoint { path: path.to_owned(), source: source.into() };
    let relative = path.strip_prefix(outer).map_err(|_| failed(Errno::INVAL))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    openat2(tree, relative, flags, Mode::empty(), resolve).map_err(failed)
}
