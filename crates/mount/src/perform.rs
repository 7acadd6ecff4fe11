// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Carrying out a mount plan.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cabane_privileged::operations::{attach, enter_own_namespace, make_read_only};
use cabane_privileged::shadow::{Kind, Shadows, open_source};
use cabane_privileged::{
    Error as Privileged, ImageDigest, ImageFile, Policy, UnpackedTree, attach_for_root,
    obtain_for_root,
};
use rustix::fs::{FileType, fstat};

use crate::backend::enter_private_namespace_as_root;
use crate::root::{self, OpenedLayer};
use crate::unpacked::tree_of;
use crate::{Backend, Error, MountPlan, Operation, enter_private_namespace, fuse};

/// Carries out a plan for this process and its future children.
///
/// The process must have one thread. On success it is in a mount namespace of its
/// own in which every operation has been carried out, and can gain no privileges; its
/// working directory is the same path as before where that path still exists, and `/`
/// otherwise.
///
/// # Errors
///
/// The first step that failed. The process is then somewhere in between and must
/// not start the user's program; what was mounted goes away with it.
pub fn perform(plan: MountPlan) -> Result<(), Error> {
    let working_directory = std::env::current_dir();
    let before = Before::of(&plan)?;
    if plan.backend == Backend::UserNamespace && plan.is_writable() {
        // What is in an image belongs to root, and only its owner can change it.
        enter_private_namespace_as_root()?;
    } else {
        enter_private_namespace(plan.backend)?;
    }
    execute(plan, before, working_directory)
}

/// Carries out a plan as [`perform()`] does, in a copy of the mounts that the process
/// sees, and in the user namespace in which it is: there it must have the right to
/// mount, as a process has that has just entered a user namespace of its user.
///
/// # Errors
///
/// As [`perform()`].
pub fn perform_in_current_user_namespace(plan: MountPlan) -> Result<(), Error> {
    let working_directory = std::env::current_dir();
    let before = Before::of(&plan)?;
    enter_private_namespace(Backend::Root)?;
    execute(plan, before, working_directory)
}

fn execute(
    plan: MountPlan,
    before: Before,
    working_directory: io::Result<PathBuf>,
) -> Result<(), Error> {
    let backend = plan.backend;
    let (prepared, trees) = prepare(plan, before)?;
    // In the namespace in which it is used, and before anything is covered.
    let opened = open_layer(&prepared)?;
    let mut shadows = Shadows::default();
    for (operation, mount) in &prepared {
        match (operation, mount) {
            (Operation::Root { layer, .. }, Some(mount)) => {
                root::enter(&mut shadows, mount, layer, opened.as_ref(), backend)?;
            }
            _ => put_in_place(&mut shadows, operation, mount.as_ref())?,
        }
    }
    shadows.seal()?;
    // What has its name still when it is attached is not removed while it is in use.
    trees.iter().try_for_each(UnpackedTree::check)?;
    // What is mounted is under the user's control; no program may trust it with more
    // rights than the user has.
    rustix::thread::set_no_new_privs(true)
        .map_err(Error::step("give up gaining privileges for", "the command"))?;
    // By path, not by descriptor: what was mounted may lie over it.
    let moved = working_directory.is_ok_and(|path| std::env::set_current_dir(path).is_ok());
    if !moved {
        std::env::set_current_dir("/").map_err(|source| Privileged::Step {
            what: "change into",
            path: "/".into(),
            source,
        })?;
    }
    Ok(())
}

/// What is done before the process leaves the namespaces of its caller.
struct Before {
    /// Detached mounts of the images that are mounted as root, in order.
    mounts: Vec<OwnedFd>,
    /// For each image its tree, if root has unpacked it.
    trees: Vec<Option<UnpackedTree>>,
}

/// What is mounted, each with its detached mount, and the unpacked images among it.
type Prepared = (Vec<(Operation, Option<OwnedFd>)>, Vec<UnpackedTree>);

/// Opens everything before anything is covered. Images that the kernel reads are
/// mounted already. Returns the unpacked images, too.
fn prepare(plan: MountPlan, before: Before) -> Result<Prepared, Error> {
    let MountPlan { backend, fuse, operations } = plan;
    let Before { mut mounts, trees } = before;
    let mut unpacked = Vec::new();
    for ((_, image), tree) in images_of(&operations).zip(trees) {
        if let Some(mut tree) = tree {
            if backend != Backend::Root {
                tree.find_again()?;
                mounts.push(tree.mount()?);
            }
            unpacked.push(tree);
        } else if backend != Backend::Root {
            mounts.push(fuse::attach(image, &fuse)?);
        }
    }
    let trees = unpacked;
    if mounts.len() > trees.len() && backend != Backend::Root {
        // The FUSE programs stay behind in the namespace left here. In the new one
        // they would keep alive the very mounts whose end they wait for.
        enter_own_namespace()?;
    }
    let mut mounts = mounts.into_iter();
    let prepared = operations
        .into_iter()
        .map(|operation| {
            let mount = match &operation {
                Operation::Root { .. } | Operation::Image { .. } => mounts.next(),
                Operation::Bind { source, .. } => Some(open_source(source)?),
                Operation::Extend { .. } | Operation::Hide { .. } | Operation::Empty { .. } => None,
            };
            Ok((operation, mount))
        })
        .collect::<Result<_, Error>>()?;
    Ok((prepared, trees))
}

fn images_of(operations: &[Operation]) -> impl Iterator<Item = (&Operation, &ImageFile)> {
    operations.iter().filter_map(|operation| Some((operation, operation.image()?)))
}

/// Opens the layer of a root image, if it is to be kept.
fn open_layer(prepared: &[(Operation, Option<OwnedFd>)]) -> Result<Option<OpenedLayer>, Error> {
    match prepared.first() {
        Some((Operation::Root { layer, .. }, _)) => layer.open(),
        _ => Ok(None),
    }
}

impl Before {
    /// As root, everything is mounted here. Otherwise, whose the unpacked images are can be seen only
    /// here: in a user namespace of its own, the process sees no other users.
    fn of(plan: &MountPlan) -> Result<Self, Error> {
        match plan.backend {
            Backend::Root => attach_as_root(plan),
            _ => Ok(Self { mounts: Vec::new(), trees: trees_of(plan, UnpackedTree::open) }),
        }
    }
}

/// Mounts the images of a plan as root.
///
/// Where the site has a policy, images are shared with everyone on the node and held
/// for a while; elsewhere nothing may stay behind that no one would ever remove. This
/// happens in the namespace of the caller, where the files of the images are.
fn attach_as_root(plan: &MountPlan) -> Result<Before, Error> {
    let trees = trees_of(plan, UnpackedTree::open_locked);
    let packed = images_of(&plan.operations).zip(&trees).filter(|(_, tree)| tree.is_none());
    let packed: Vec<&ImageFile> = packed.map(|((_, image), _)| image).collect();
    let mut packed = attach_packed(&packed)?.into_iter();
    let mut mounts = Vec::with_capacity(trees.len());
    for tree in &trees {
        match tree {
            Some(tree) => mounts.push(tree.mount()?),
            None => mounts.extend(packed.next()),
        }
    }
    Ok(Before { mounts, trees })
}

/// Returns for each image its tree, if it is to be bound and can be.
fn trees_of(
    plan: &MountPlan,
    open: fn(&Path, ImageDigest) -> Result<Option<UnpackedTree>, Privileged>,
) -> Vec<Option<UnpackedTree>> {
    images_of(&plan.operations).map(|(operation, _)| tree_of(operation, open)).collect()
}

fn attach_packed(images: &[&ImageFile]) -> Result<Vec<OwnedFd>, Error> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    match Policy::read() {
        Ok(policy) => Ok(obtain_for_root(images, &policy)?),
        Err(Privileged::Step { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            let mounts = images.iter().map(|image| attach_for_root(image));
            Ok(mounts.collect::<Result<_, _>>()?)
        }
        Err(error) => Err(error.into()),
    }
}

fn put_in_place(
    shadows: &mut Shadows,
    operation: &Operation,
    mount: Option<&OwnedFd>,
) -> Result<(), Error> {
    match (operation, mount) {
        (Operation::Image { mount_point, .. }, Some(mount)) => {
            shadows.ensure(mount_point, Kind::Directory)?;
            Ok(attach(mount, mount_point)?)
        }
        (Operation::Bind { target, read_only, .. }, Some(mount)) => {
            shadows.ensure(target, kind_of(mount))?;
            attach(mount, target)?;
            if *read_only {
                make_read_only(target)?;
            }
            Ok(())
        }
        (Operation::Extend { file, lines }, _) => Ok(shadows.extend(file, lines)?),
        (Operation::Hide { directory }, _) if directory.is_dir() => Ok(shadows.hide(directory)?),
        (Operation::Hide { .. }, _) => Ok(()),
        (Operation::Empty { directory }, _) => {
            shadows.ensure(directory, Kind::Directory)?;
            Ok(shadows.hide(directory)?)
        }
        // The root is the first one, and not put into what it replaces.
        (operation, _) => {
            Err(Error::step("open what belongs at", operation.target())(rustix::io::Errno::BADF))
        }
    }
}

fn kind_of(mount: &OwnedFd) -> Kind {
    let is_directory = fstat(mount)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    if is_directory { Kind::Directory } else { Kind::File }
}
