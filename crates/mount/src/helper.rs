// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The set-uid helper as its callers see it: where it is, and whether it can help.

use std::fmt;
use std::fs;
use std::io::ErrorKind::NotFound;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_privileged::{
    Error, Policy, check_image, check_places, check_served, check_verified, trusted,
};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

use crate::backend::is_initial_user_namespace;
use crate::{FusePrograms, ImageFile, MountPlan, Operation, Verity, Way, verity};

/// The name of the program.
pub const NAME: &str = "cabane-mount";
const SET_UID: u32 = 0o4000;

/// Why the helper cannot carry out a plan, or cannot help at all.
#[derive(Debug)]
pub enum Unavailable {
    /// It is in none of the places.
    NotInstalled,
    /// It does not belong to root, or is not set-uid.
    NotSetUid {
        /// Where it is.
        path: PathBuf,
    },
    /// It is on a file system on which set-uid programs have no effect.
    NoSetUidThere {
        /// Where it is.
        path: PathBuf,
    },
    /// The process gave up the right to gain privileges, as in an environment.
    NoNewPrivileges,
    /// The process is in a user namespace.
    InUserNamespace,
    /// The policy is missing, void, or not root's alone.
    Policy(Error),
    /// The policy forbids an image or a mount point.
    Forbidden(Error),
    /// There is nothing on which an image could be mounted.
    NoMountPoint {
        /// Where it should be.
        path: PathBuf,
    },
    /// A root image is to be written to.
    WritableRoot,
    /// The plan holds more than images.
    MoreThanImages {
        /// The place of what is more.
        target: PathBuf,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => write!(f, "the helper {NAME} is not installed"),
            Self::NotSetUid { path } => {
                write!(f, "{} is not set-uid root", path.display())
            }
            Self::NoSetUidThere { path } => {
                write!(f, "{} is on a file system mounted with `nosuid`", path.display())
            }
            Self::NoNewPrivileges => {
                write!(f, "the process cannot gain privileges (no_new_privs), as in an environment")
            }
            Self::InUserNamespace => write!(f, "the process is in a user namespace"),
            Self::Policy(error) | Self::Forbidden(error) => write!(f, "{error}"),
            Self::NoMountPoint { path } => write!(
                f,
                "there is no directory {} on which the helper could mount",
                path.display()
            ),
            Self::WritableRoot => {
                write!(f, "the helper makes no root file system that can be written to")
            }
            Self::MoreThanImages { target } => write!(
                f,
                "the helper mounts nothing but images, and {} is to be something else",
                target.display()
            ),
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Policy(error) | Self::Forbidden(error) => error.source(),
            _ => None,
        }
    }
}

/// A helper that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    /// Where it is.
    pub path: PathBuf,
    /// What it may do.
    pub policy: Policy,
}

impl Helper {
    /// Returns the first helper of these paths, if this process can use it.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn find(paths: &[PathBuf]) -> Result<Self, Unavailable> {
        let installed =
            paths.iter().find(|path| path.is_file()).ok_or(Unavailable::NotInstalled)?;
        check_installed(installed)?;
        // Checked first: inside of an environment it is the reason people know.
        if rustix::thread::no_new_privs().unwrap_or(true) {
            return Err(Unavailable::NoNewPrivileges);
        }
        if !is_initial_user_namespace() {
            return Err(Unavailable::InUserNamespace);
        }
        Ok(Self { path: installed.clone(), policy: Policy::read().map_err(Unavailable::Policy)? })
    }

    /// Returns the first place where the helper would mount an image.
    pub fn any_mount_point(&self) -> Option<&Path> {
        let mut places = self.policy.mount_points.iter().map(PathBuf::as_path);
        places.find(|place| self.check_mount_point(place, false).is_ok())
    }

    fn check_root(&self, plan: &MountPlan) -> Result<(), Unavailable> {
        if !self.policy.root_images {
            return Err(Unavailable::Forbidden(Error::RootNotAllowed));
        }
        if plan.is_writable() {
            return Err(Unavailable::WritableRoot);
        }
        let (mut binds, mut files, mut images) = (Vec::new(), Vec::new(), Vec::new());
        for operation in &plan.operations {
            match operation {
                Operation::Root { .. } => {}
                Operation::Image { mount_point, .. } => images.push(mount_point.clone()),
                Operation::Bind { target, .. } => binds.push(target.as_path()),
                Operation::Extend { file, .. } => files.push(file.as_path()),
                Operation::Hide { .. } | Operation::Empty { .. } => {
                    return Err(Unavailable::MoreThanImages {
                        target: operation.target().to_owned(),
                    });
                }
            }
        }
        check_places(binds, files, &images).map_err(Unavailable::Forbidden)
    }

    fn check_mount_point(&self, path: &Path, is_inside: bool) -> Result<(), Unavailable> {
        if !self.policy.allows_mount_point(path) {
            let path = path.to_owned();
            let error = Error::MountPointNotAllowed { path };
            return Err(Unavailable::Forbidden(error));
        }
        if is_inside {
            return Ok(());
        }
        match trusted::open_directory(path) {
            Ok(_) => Ok(()),
            Err(Error::Step { source, .. }) if source.kind() == NotFound => {
                let path = path.to_owned();
                Err(Unavailable::NoMountPoint { path })
            }
            Err(error) => Err(Unavailable::Forbidden(error)),
        }
    }

    /// Chooses for each image of a plan who reads it: the kernel where the policy trusts the owner, or
    /// vouches for the content, which is then checked, and a FUSE program otherwise. Returns why the
    /// kernel does not read those others.
    ///
    /// # Errors
    ///
    /// Why the helper would not carry out the plan, which stays as it was.
    pub fn choose_ways(&self, plan: &mut MountPlan) -> Result<Vec<Error>, Unavailable> {
        if plan.has_root() {
            self.check_root(plan)?;
        }
        let places: Vec<_> = plan.operations.iter().map(Operation::target).collect();
        let chosen = plan.operations.iter().map(|operation| {
            let target = operation.target();
            let Some(image) = operation.image() else {
                if plan.has_root() {
                    return Ok(Choice::of(Way::Kernel));
                }
                return Err(Unavailable::MoreThanImages { target: target.to_owned() });
            };
            // What another image brings cannot be looked at yet.
            let mut others = places.iter();
            let is_inside = others.any(|other| *other != target && target.starts_with(other));
            self.check_mount_point(target, is_inside || target == Path::new("/"))?;
            let choice = self.choose(operation.way(), image, target, &places, &plan.fuse);
            choice.map_err(Unavailable::Forbidden)
        });
        let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        let pairs = plan.operations.iter_mut().zip(chosen);
        let reasons = pairs.map(|(operation, Choice { way, verity, reason })| {
            operation.set_way(way, verity);
            reason
        });
        Ok(reasons.flatten().collect())
    }

    fn choose(
        &self,
        way: Way,
        image: &ImageFile,
        mount_point: &Path,
        places: &[&Path],
        programs: &FusePrograms,
    ) -> Result<Choice, Error> {
        let is_unpacked = matches!(way, Way::Unpacked(_));
        let by_kernel = if is_unpacked { Choice::of(way) } else { Choice::of(Way::Kernel) };
        if geteuid().is_root() {
            return Ok(by_kernel);
        }
        let Err(mut reason) = check_image(&self.policy, image.file.as_fd(), &image.path) else {
            return Ok(by_kernel);
        };
        if let Ok(Some(verity)) = verity::open_tree(&image.file, &image.path)
            && verity::is_in_kernel()
        {
            match check_verified(&self.policy, image, &verity) {
                Ok(()) => {
                    return Ok(Choice { way: Way::Verified, verity: Some(verity), reason: None });
                }
                Err(Error::Refused { reason: other, .. }) => reason = reason.and(&other),
                Err(error) => return Err(error),
            }
        }
        // Root has checked its content when it was unpacked.
        if is_unpacked {
            return Ok(by_kernel);
        }
        if !self.policy.fuse_images || programs.find(image.format).is_err() {
            return Err(reason);
        }
        check_served(&self.policy, &image.path, mount_point, places.iter().copied())?;
        Ok(Choice { way: Way::Fuse, verity: None, reason: Some(reason) })
    }
}

/// Who reads an image.
struct Choice {
    way: Way,
    verity: Option<Verity>,
    /// Why the kernel does not.
    reason: Option<Error>,
}

impl Choice {
    const fn of(way: Way) -> Self {
        Self { way, verity: None, reason: None }
    }
}

fn check_installed(path: &Path) -> Result<(), Unavailable> {
    let path = || path.to_owned();
    let found = fs::metadata(path()).map_err(|_| Unavailable::NotInstalled)?;
    if found.uid() != 0 || found.mode() & SET_UID == 0 {
        return Err(Unavailable::NotSetUid { path: path() });
    }
    let flags = statvfs(path()).map(|found| found.f_flag);
    if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOSUID)) {
        return Err(Unavailable::NoSetUidThere { path: path() });
    }
    Ok(())
}
