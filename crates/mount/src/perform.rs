// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Carrying out a mount plan.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, StatVfsMountFlags, fstat, statvfs};
use rustix::mount::{MountFlags, mount_remount};

use crate::backend::make_slave;
use crate::shadow::{Kind, Shadows, attach, open_source};
use crate::{Backend, Error, MountPlan, Operation, enter_private_namespace, image};

/// Carries out a plan for this process and its future children.
///
/// The process must have one thread. On success it is in a mount namespace of its
/// own in which every operation has been carried out; its working directory is
/// the same path as before where that path still exists, and `/` otherwise.
///
/// # Errors
///
/// The first step that failed. The process is then somewhere in between and must
/// not start the user's program; what was mounted goes away with it.
pub fn perform(plan: MountPlan) -> Result<(), Error> {
    let working_directory = std::env::current_dir();
    enter_private_namespace(plan.backend)?;
    let prepared = prepare(plan)?;
    let mut shadows = Shadows::default();
    for (operation, mount) in &prepared {
        put_in_place(&mut shadows, operation, mount.as_ref())?;
    }
    shadows.seal()?;
    // By path, not by descriptor: what was mounted may lie over it.
    let moved = working_directory.is_ok_and(|path| std::env::set_current_dir(path).is_ok());
    if !moved {
        std::env::set_current_dir("/").map_err(|source| Error::Step {
            what: "change into",
            path: "/".into(),
            source,
        })?;
    }
    Ok(())
}

/// Opens everything before anything is covered.
fn prepare(plan: MountPlan) -> Result<Vec<(Operation, Option<OwnedFd>)>, Error> {
    let MountPlan {
        backend,
        fuse,
        operations,
    } = plan;
    let mut prepared = Vec::with_capacity(operations.len());
    let mut has_image = false;
    for operation in operations {
        let mount = match &operation {
            Operation::Image { image, .. } => {
                has_image = true;
                Some(image::attach(backend, image, &fuse)?)
            }
            Operation::Bind { .. } | Operation::Hide { .. } => None,
        };
        prepared.push((operation, mount));
    }
    if has_image && backend != Backend::Root {
        // The FUSE programs stay behind in the namespace left here. In the new one
        // they would keep alive the very mounts whose end they wait for.
        cabane_sys::namespace::unshare_mounts().map_err(|source| Error::Namespace {
            user: false,
            source,
        })?;
        make_slave()?;
    }
    for (operation, mount) in &mut prepared {
        if let Operation::Bind { source, .. } = operation {
            *mount = Some(open_source(source)?);
        }
    }
    Ok(prepared)
}

fn put_in_place(
    shadows: &mut Shadows,
    operation: &Operation,
    mount: Option<&OwnedFd>,
) -> Result<(), Error> {
    match (operation, mount) {
        (Operation::Image { mount_point, .. }, Some(mount)) => {
            shadows.ensure(mount_point, Kind::Directory)?;
            attach(mount, mount_point)
        }
        (
            Operation::Bind {
                target, read_only, ..
            },
            Some(mount),
        ) => {
            shadows.ensure(target, kind_of(mount))?;
            attach(mount, target)?;
            if *read_only {
                make_read_only(target)
            } else {
                Ok(())
            }
        }
        (Operation::Hide { directory }, _) if directory.is_dir() => shadows.hide(directory),
        (Operation::Hide { .. }, _) => Ok(()),
        (operation, None) => Err(Error::step("open what belongs at", operation.target())(
            rustix::io::Errno::BADF,
        )),
    }
}

fn kind_of(mount: &OwnedFd) -> Kind {
    let is_directory = fstat(mount)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    if is_directory {
        Kind::Directory
    } else {
        Kind::File
    }
}

/// Makes a bind read-only. In a user namespace the flags the mount already has
/// are locked and must be named again.
fn make_read_only(target: &Path) -> Result<(), Error> {
    let failed = || Error::step("make read-only", target);
    let now = statvfs(target).map_err(failed())?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    let known = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    for (has, keep) in known {
        if now.contains(has) {
            flags |= keep;
        }
    }
    mount_remount(target, flags, c"").map_err(failed())
}
