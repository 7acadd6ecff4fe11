// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong between a resolved image and the running command.

use std::io;
use std::path::PathBuf;

use cabane_label::MountPoint;
use cabane_report::{Kind, Report};

use crate::{AttachError, JoinError};

/// A command that was not started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The image cannot be read.
    #[error("cannot open the image {}", path.display())]
    Open {
        /// The image file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// An image cannot be mounted.
    #[error(transparent)]
    Mount(#[from] cabane_mount::Error),
    /// The namespaces of others cannot be entered.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The environment of a process cannot be entered.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The process cannot give up the means to gain rights.
    #[error("cannot give up the means to gain rights")]
    Rights {
        /// What the system answered.
        source: io::Error,
    },
    /// The metadata of an image cannot be looked at.
    #[error("cannot read the metadata in {}: {reason}", path.display())]
    Metadata {
        /// The image file.
        path: PathBuf,
        /// What stood in the way.
        reason: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// The host lacks the interpreter that an image was built with.
    #[error(
        "the image {image} needs Python {version} at {}, and {found}",
        path.display()
    )]
    Interpreter {
        /// The name of the image.
        image: String,
        /// The version it was built with.
        version: String,
        /// Where it was.
        path: PathBuf,
        /// What is there instead, as a sentence.
        found: String,
    },
    /// The set-uid helper cannot be started.
    #[error("cannot mount through {}", path.display())]
    Helper {
        /// Where it is.
        path: PathBuf,
        /// What stood in the way.
        source: io::Error,
    },
    /// What is to appear at another place is not there.
    #[error("cannot mount {}", path.display())]
    BindSource {
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// An image and something else, or two others, are to be mounted at one place.
    #[error("two things would be mounted at {mount_point}")]
    SameTarget {
        /// The place.
        mount_point: MountPoint,
    },
    /// There is nothing to be started.
    #[error("{}", no_command(*is_root))]
    NoCommand {
        /// Whether there is a root image, which could have said what.
        is_root: bool,
    },
    /// A root image is to be put into an environment that exists.
    #[error("the image {image} has a root file system of its own, and cannot be added")]
    RootInside {
        /// The name of the image.
        image: String,
    },
    /// The directory in which the command is to start cannot be entered.
    #[error("cannot start in the directory {}", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The command does not exist.
    #[error("there is no command `{}`", program.display())]
    NotFound {
        /// What was to be started.
        program: PathBuf,
    },
    /// The command cannot be started.
    #[error("cannot start `{}`", program.display())]
    Exec {
        /// What was to be started.
        program: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

/// Whether the kernel knows no way to start a file.
fn is_for_other_processors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

fn no_command(is_root: bool) -> &'static str {
    if is_root {
        "the image does not say what it starts, and no command is given"
    } else {
        "no command is given"
    }
}

impl RunError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Mount(error) => error.hint(),
            Self::Join(error) => Some(error.hint()),
            Self::Attach(error) => error.hint(),
            Self::Metadata { hint, .. } => hint.clone(),
            Self::Interpreter { version, .. } => Some(format!(
                "install Python {version} there, or build the image again on this system with \
                 `cabane build`"
            )),
            Self::NotFound { program } if program.components().count() > 1 => Some(
                "the file is missing, or the interpreter that its first line names is".to_owned(),
            ),
            Self::NotFound { .. } => Some(
                "see which views the image has with `cabane image inspect`, and choose one with \
                 `--view`; a container has only what is in its image"
                    .to_owned(),
            ),
            Self::WorkingDirectory { .. } => Some(
                "it must exist inside the environment: see `workdir` of the environment file"
                    .to_owned(),
            ),
            Self::Exec { source, .. } if is_for_other_processors(source) => Some(
                "it is for other processors than those of this machine, or no program".to_owned(),
            ),
            Self::NoCommand { .. } => Some("write it after the image: `-- COMMAND`".to_owned()),
            Self::RootInside { .. } => Some(
                "`cabane run` and `cabane start` take it, with the others beside it".to_owned(),
            ),
            Self::SameTarget { .. } => {
                Some("give one of them another place in the environment file".to_owned())
            }
            Self::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("ask the owner of the image for the right to read it".to_owned())
            }
            _ => None,
        }
    }
}

impl From<RunError> for Report {
    fn from(error: RunError) -> Self {
        let hint = error.hint();
        Self::new(Kind::NotStarted, error).hinted(hint)
    }
}
