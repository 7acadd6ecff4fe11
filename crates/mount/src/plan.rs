// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The mount plan: what is to be mounted, as data.

use std::fmt;
use std::path::PathBuf;

use crate::{Backend, FusePrograms, ImageFile};

/// One thing to be mounted. The list of kinds is closed.
#[derive(Debug)]
pub enum Operation {
    /// An image file at a mount point; read-only, without set-uid and devices.
    Image {
        /// The opened file: what was checked is what is mounted.
        image: ImageFile,
        /// An absolute path.
        mount_point: PathBuf,
    },
    /// A file or directory at a second place, with all that is mounted below it.
    Bind {
        /// An absolute path, looked up before anything is covered.
        source: PathBuf,
        /// An absolute path; made if it does not exist.
        target: PathBuf,
        /// Whether writing is refused there.
        read_only: bool,
    },
    /// An empty directory in memory over an existing one.
    Hide {
        /// An absolute path.
        directory: PathBuf,
    },
}

impl Operation {
    /// Returns the path at which something appears.
    pub fn target(&self) -> &PathBuf {
        match self {
            Self::Image { mount_point, .. } => mount_point,
            Self::Bind { target, .. } => target,
            Self::Hide { directory } => directory,
        }
    }
}

/// Everything a process mounts for itself, in order: a later operation may cover
/// what an earlier one shows.
#[derive(Debug)]
pub struct MountPlan {
    /// How the kernel is asked.
    pub backend: Backend,
    /// The programs that serve images where the kernel may not.
    pub fuse: FusePrograms,
    /// What is mounted, first to last.
    pub operations: Vec<Operation>,
}

impl fmt::Display for MountPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "backend {}", self.backend)?;
        for operation in &self.operations {
            match operation {
                Operation::Image { image, mount_point } => writeln!(
                    f,
                    "image {} ({}) at {}",
                    image.path.display(),
                    image.format,
                    mount_point.display()
                )?,
                Operation::Bind {
                    source,
                    target,
                    read_only,
                } => writeln!(
                    f,
                    "bind {} at {}{}",
                    source.display(),
                    target.display(),
                    if *read_only { " (read-only)" } else { "" }
                )?,
                Operation::Hide { directory } => writeln!(f, "hide {}", directory.display())?,
            }
        }
        Ok(())
    }
}
