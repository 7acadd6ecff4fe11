// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong while mounting: the call, its object, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cabane_process::installation;

/// A step of mounting that failed.
#[derive(Debug)]
pub enum Error {
    /// A step that is the same with and without privileges.
    Mount(cabane_privileged::Error),
    /// A new user namespace was refused.
    UserNamespace {
        /// What the system answered.
        source: io::Error,
    },
    /// `/dev/fuse` cannot be opened.
    FuseDevice {
        /// What the system answered.
        source: io::Error,
    },
    /// No program that serves images of this format through FUSE was found.
    FuseProgram {
        /// The programs that were looked for.
        programs: Vec<PathBuf>,
        /// The one that is to be installed.
        package: &'static str,
    },
    /// What is written in the root file system of an image cannot be kept there.
    Layer {
        /// The directory.
        path: PathBuf,
        /// What the kernel wrote about it.
        log: Option<String>,
        /// What the system answered.
        source: io::Error,
    },
    /// Layers cannot be put on top of each other.
    Overlay {
        /// Where changes would have gone.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// What programs expect to be a directory is something else in an image.
    NoDirectory {
        /// Where, in the image.
        path: PathBuf,
    },
    /// Another environment writes there.
    LayerInUse {
        /// The directory.
        path: PathBuf,
    },
}

impl From<cabane_privileged::Error> for Error {
    fn from(error: cabane_privileged::Error) -> Self {
        Self::Mount(error)
    }
}

impl Error {
    pub(crate) fn step(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        let failed = cabane_privileged::Error::step(what, path);
        move |errno| Self::Mount(failed(errno))
    }

    /// Returns what the user or the administrator can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Mount(error) => return error.hint(),
            Self::UserNamespace { .. } => {
                "user namespaces may be switched off here: see `sysctl user.max_user_namespaces \
                 kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns`; \
                 an administrator can allow them"
                    .to_owned()
            }
            Self::FuseDevice { source } if source.kind() == io::ErrorKind::NotFound => {
                "load the kernel module with `sudo modprobe fuse`".to_owned()
            }
            Self::FuseDevice { .. } => {
                "an administrator can open it to users, as on other systems, with \
                 `sudo chmod 0666 /dev/fuse`"
                    .to_owned()
            }
            Self::FuseProgram { package, .. } => return installation::hint(package),
            Self::Layer { .. } => "name a directory on a local disk, as in \
                 `--writable=/tmp/layer`: file servers and overlays cannot hold one; `--writable` \
                 alone keeps it in memory"
                .to_owned(),
            Self::Overlay { .. } => "the directory of the build must be on a local disk, which \
                 `--build-dir DIR` names: file servers and overlays cannot hold layers"
                .to_owned(),
            Self::NoDirectory { .. } => return None,
            Self::LayerInUse { .. } => "name another directory, or `cabane attach` to the \
                 environment that uses this one"
                .to_owned(),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(error) => write!(f, "{error}"),
            Self::UserNamespace { .. } => {
                write!(f, "cannot create a user namespace with its own mounts")
            }
            Self::FuseDevice { .. } => write!(f, "cannot open /dev/fuse"),
            Self::FuseProgram { programs, .. } => {
                write!(f, "no program found that serves the image through FUSE (looked for")?;
                for program in programs {
                    write!(f, " {}", program.display())?;
                }
                write!(f, ", and in PATH)")
            }
            Self::Layer { path, log, .. } => {
                write!(f, "cannot write over the image in {}", path.display())?;
                match log {
                    Some(log) => write!(f, " ({log})"),
                    None => Ok(()),
                }
            }
            Self::Overlay { path, .. } => {
                write!(f, "cannot put layers on the image, with changes in {}", path.display())
            }
            Self::NoDirectory { path } => write!(
                f,
                "{} is no directory in the image, and commands cannot run in such an image",
                path.display()
            ),
            Self::LayerInUse { path } => {
                write!(f, "another environment is writing in {}, and two cannot", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Mount(error) => error.source(),
            Self::FuseProgram { .. } | Self::NoDirectory { .. } | Self::LayerInUse { .. } => None,
            Self::UserNamespace { source }
            | Self::FuseDevice { source }
            | Self::Overlay { source, .. }
            | Self::Layer { source, .. } => Some(source),
        }
    }
}
