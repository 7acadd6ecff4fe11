// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong while mounting: the call, its object, and what to do.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::fuse::DEVICE as FUSE_DEVICE;
use crate::{ImageDigest, PolicyError};

/// A step of mounting that failed, or what is not allowed.
///
/// Written by hand: in a program with privileges every dependency counts.
#[derive(Debug)]
pub enum Error {
    /// A new mount namespace was refused.
    Namespace {
        /// What the system answered.
        source: io::Error,
    },
    /// No loop device could be had.
    LoopDevice {
        /// What the system answered.
        source: io::Error,
    },
    /// The kernel or the FUSE program refused the image.
    Image {
        /// The image file.
        path: PathBuf,
        /// The name of the file system.
        format: &'static str,
        /// What the kernel wrote about it, if anything.
        log: Option<String>,
        /// What the system answered.
        source: io::Error,
    },
    /// The kernel cannot check the content of an image.
    Verity {
        /// The image file.
        image: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A mount point is in the way of itself: not a directory, or unreachable.
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Something that only root may change could be changed by others.
    Untrusted {
        /// What it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The policy of the helper has a mistake.
    Policy {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: PolicyError,
    },
    /// The policy of the helper, or the request, forbids an image.
    Refused {
        /// What the user calls it.
        image: PathBuf,
        /// Why.
        reason: Cow<'static, str>,
    },
    /// The policy of the helper does not list a mount point.
    MountPointNotAllowed {
        /// The mount point.
        path: PathBuf,
    },
    /// The user has as many images mounted as one user may have.
    TooManyImages {
        /// How many that is.
        limit: u32,
    },
    /// Another start of the same user holds the lock under which the user's images are counted.
    OtherStart,
    /// The policy allows no copies of images there.
    StageNotAllowed {
        /// Where they were to be, fit to stand after "in".
        place: &'static str,
    },
    /// Others use the space that copies of images may have.
    NoSpaceForCopy {
        /// The image.
        image: PathBuf,
        /// Where the copy was to be, fit to stand after "in".
        place: &'static str,
        /// How many bytes all copies may have, together.
        limit: u64,
    },
    /// An unpacked image that was to be bound is not on this node.
    NotUnpacked {
        /// Where it would be.
        store: PathBuf,
        /// The digest of the image.
        digest: ImageDigest,
    },
    /// Images cannot be kept for all users of the node.
    Cache {
        /// What was being done, fit to stand after "failed to".
        what: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// Root cannot put something into a root image for its user.
    RootRefused {
        /// The place.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// Root images are not allowed.
    RootNotAllowed,
    /// Another step failed.
    Step {
        /// What was being done, fit to stand after "failed to".
        what: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

impl Error {
    /// Returns what makes an error of a system call: what was done, fit to stand after "failed
    /// to", and to what.
    pub fn step(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        let path = path.as_ref().to_owned();
        move |errno| Self::Step { what, path, source: errno.into() }
    }

    /// Returns the same with another reason behind its own, if it is a refusal.
    #[must_use]
    pub fn and(mut self, other: &str) -> Self {
        if let Self::Refused { reason, .. } = &mut self {
            *reason = format!("{reason}; {other}").into();
        }
        self
    }

    pub(crate) fn cache(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Cache { what, source: errno.into() }
    }

    /// Returns what the user or the administrator can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Namespace { .. } => {
                "mounting as root needs CAP_SYS_ADMIN; in a container start it with \
                 `--cap-add SYS_ADMIN`, or use `--backend user-namespace`"
                    .to_owned()
            }
            Self::LoopDevice { .. } => {
                "the kernel needs the loop module and `/dev/loop-control`: try `sudo modprobe \
                 loop`, or use `--backend user-namespace`"
                    .to_owned()
            }
            Self::Verity { source, .. } if is_about_keys(source) => {
                "the signature of the root hash must be of a key that the kernel trusts (`sudo \
                 keyctl list %:.secondary_trusted_keys`), and of this image"
                    .to_owned()
            }
            Self::Verity { .. } => {
                "the kernel needs dm-verity: try `sudo modprobe dm-verity`, or use `--backend \
                 user-namespace`"
                    .to_owned()
            }
            Self::MountPointNotAllowed { .. }
            | Self::Refused { .. }
            | Self::RootRefused { .. }
            | Self::RootNotAllowed => {
                "`--backend user-namespace` mounts it without privilege; an administrator can \
                 allow more in /etc/cabane/mount.policy"
                    .to_owned()
            }
            Self::TooManyImages { .. } => {
                "`cabane clean --mounts` gives up images that are not in use; `--backend \
                 user-namespace` needs none of the limit"
                    .to_owned()
            }
            Self::OtherStart => {
                "find it with `ps -u $USER -o pid,stat,args` (state T: stopped) and resume it with \
                 `kill -CONT PID`"
                    .to_owned()
            }
            Self::Step { path, .. } if path == Path::new(FUSE_DEVICE) => {
                "an administrator can open it to users, as on other systems: `cabane doctor` shows \
                 how"
                .to_owned()
            }
            Self::NotUnpacked { .. } => {
                "start the command again: an image that is not unpacked is mounted from its file; \
                 `cabane image unpack --list` shows those that are"
                    .to_owned()
            }
            Self::Untrusted { .. } | Self::Policy { .. } => {
                "an administrator can fix it: `cabane doctor` shows how".to_owned()
            }
            Self::Image { source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) =>
            {
                "`cabane image verify` checks an image of a repository; if the program was killed, \
                 `--no-join` starts another"
                    .to_owned()
            }
            Self::Image { format, source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
            {
                format!("this kernel has no {format}: try `sudo modprobe {format}`")
            }
            _ => return None,
        })
    }
}

/// Tells whether the kernel refused a signature (`verify_pkcs7_signature`).
fn is_about_keys(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOKEY, Errno::KEYREJECTED, Errno::BADMSG, Errno::NOPKG, Errno::KEYEXPIRED]
        .contains(&Errno::from_io_error(error).unwrap_or(Errno::IO))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace { .. } => write!(f, "cannot create a mount namespace"),
            Self::LoopDevice { .. } => write!(f, "cannot get a loop device"),
            Self::Image { path, format, log, .. } => {
                write!(f, "cannot mount {} as {format}", path.display())?;
                match log {
                    Some(log) => write!(f, " ({log})"),
                    None => Ok(()),
                }
            }
            Self::Verity { image, .. } => {
                write!(f, "cannot check the content of {} while it is read", image.display())
            }
            Self::MountPoint { path, .. } => {
                write!(f, "cannot use {} as a mount point", path.display())
            }
            Self::Untrusted { path, reason } => {
                write!(f, "{} cannot be trusted: it {reason}", path.display())
            }
            Self::RootRefused { path, reason } => {
                write!(f, "{} cannot be mounted in the image as root: {reason}", path.display())
            }
            Self::RootNotAllowed => {
                write!(f, "the policy does not allow images with a root file system of their own")
            }
            Self::Policy { path, .. } => write!(f, "a mistake in {}", path.display()),
            Self::Refused { image, reason } => {
                write!(f, "the kernel may not read {}: {reason}", image.display())
            }
            Self::MountPointNotAllowed { path } => write!(
                f,
                "{} is not among the mount points that the administrator allows",
                path.display()
            ),
            Self::TooManyImages { limit } => {
                write!(f, "you have {limit} images in use on this node, and more are not allowed")
            }
            Self::OtherStart => {
                write!(f, "another of your starts on this node is blocked while it mounts an image")
            }
            Self::StageNotAllowed { place } => {
                write!(f, "no copies of images are allowed in {place}")
            }
            Self::NoSpaceForCopy { image, place, limit } => write!(
                f,
                "there is no space for a copy of {} in {place}, where all copies may have {} MiB",
                image.display(),
                limit >> 20
            ),
            Self::NotUnpacked { store, digest } => write!(
                f,
                "the image {} is not unpacked in {} any more",
                digest.as_str().get(..16).unwrap_or_default(),
                store.display()
            ),
            Self::Cache { what, .. } => write!(f, "failed to {what}"),
            Self::Step { what, path, .. } => write!(f, "failed to {what} {}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Untrusted { .. }
            | Self::Refused { .. }
            | Self::MountPointNotAllowed { .. }
            | Self::TooManyImages { .. }
            | Self::OtherStart
            | Self::StageNotAllowed { .. }
            | Self::NoSpaceForCopy { .. }
            | Self::NotUnpacked { .. }
            | Self::RootRefused { .. }
            | Self::RootNotAllowed => None,
            Self::Policy { source, .. } => Some(source),
            Self::Namespace { source, .. }
            | Self::LoopDevice { source }
            | Self::Image { source, .. }
            | Self::Verity { source, .. }
            | Self::MountPoint { source, .. }
            | Self::Cache { source, .. }
            | Self::Step { source, .. } => Some(source),
        }
    }
}
