// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The mount plan: what is to be mounted, as data.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Backend, FusePrograms, ImageFile, Layer, Verity, Way};

/// One thing to be mounted. The list of kinds is closed.
#[derive(Debug)]
pub enum Operation {
    /// The root file system of an image in place of the one that is there, with the kernel's
    /// directories in it. It comes before all others, which happen in it.
    Root {
        /// The opened file.
        image: ImageFile,
        /// Where writing goes.
        layer: Layer,
    },
    /// An image file at a mount point; read-only, without set-uid and devices.
    Image {
        /// The opened file: what was checked is what is mounted.
        image: ImageFile,
        /// Who reads it where the helper mounts. As root that is the kernel, in a user namespace a
        /// FUSE program, and everywhere the file system of the node if root has unpacked the image.
        way: Way,
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
    /// Lines at the beginning of a text file, for this process and its children only. The file is
    /// made if it does not exist.
    Extend {
        /// An absolute path.
        file: PathBuf,
        /// Whole lines.
        lines: String,
    },
    /// An empty directory in memory over an existing one.
    Hide {
        /// An absolute path.
        directory: PathBuf,
    },
    /// The same at a path where there may be nothing. The user can write there.
    Empty {
        /// An absolute path.
        directory: PathBuf,
    },
}

impl Operation {
    /// Returns the path at which something appears.
    pub fn target(&self) -> &Path {
        match self {
            Self::Root { .. } => Path::new("/"),
            Self::Image { mount_point, .. } => mount_point,
            Self::Bind { target, .. } => target,
            Self::Extend { file, .. } => file,
            Self::Hide { directory } | Self::Empty { directory } => directory,
        }
    }

    /// Returns the image, if it is about one.
    pub fn image(&self) -> Option<&ImageFile> {
        match self {
            Self::Root { image, .. } | Self::Image { image, .. } => Some(image),
            Self::Bind { .. } | Self::Extend { .. } | Self::Hide { .. } | Self::Empty { .. } => {
                None
            }
        }
    }

    /// Returns who reads the image where the helper mounts. A root image is never served.
    pub fn way(&self) -> Way {
        match self {
            Self::Image { way, .. } => *way,
            Self::Root { image, .. } if image.verity.is_some() => Way::Verified,
            _ => Way::Kernel,
        }
    }

    /// Notes who reads the image, and what it is checked with.
    pub(crate) fn set_way(&mut self, chosen: Way, checked_with: Option<Verity>) {
        match self {
            Self::Root { image, .. } => image.verity = checked_with,
            Self::Image { image, way, .. } => (*way, image.verity) = (chosen, checked_with),
            Self::Bind { .. } | Self::Extend { .. } | Self::Hide { .. } | Self::Empty { .. } => {}
        }
    }
}

/// Everything a process mounts for itself, in order: a later operation may cover
/// what an earlier one shows.
#[derive(Debug)]
pub struct MountPlan {
    /// How the kernel mounts.
    pub backend: Backend,
    /// The programs that serve images where the kernel may not.
    pub fuse: FusePrograms,
    /// What is mounted, first to last.
    pub operations: Vec<Operation>,
}

impl MountPlan {
    /// Tells whether the root file system of an image takes the place of the host's.
    pub fn has_root(&self) -> bool {
        matches!(self.operations.first(), Some(Operation::Root { .. }))
    }

    /// Returns the images that FUSE programs serve where the helper mounts.
    pub fn served(&self) -> impl Iterator<Item = &ImageFile> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Image { image, way: Way::Fuse, .. } => Some(image),
            _ => None,
        })
    }

    /// Returns the images that are bound where root has unpacked them.
    pub fn unpacked(&self) -> impl Iterator<Item = &ImageFile> {
        let unpacked = self.operations.iter().filter(|one| matches!(one.way(), Way::Unpacked(_)));
        unpacked.filter_map(Operation::image)
    }

    /// Returns the images whose content the kernel checks where the helper mounts.
    pub fn verified(&self) -> impl Iterator<Item = &ImageFile> {
        let verified = self.operations.iter().filter(|one| one.way() == Way::Verified);
        verified.filter_map(Operation::image)
    }

    /// Tells whether the root file system can be written to.
    pub fn is_writable(&self) -> bool {
        let layer = self.operations.iter().find_map(|operation| match operation {
            Operation::Root { layer, .. } => Some(layer),
            _ => None,
        });
        layer.is_some_and(|layer| *layer != Layer::None)
    }
}

impl fmt::Display for MountPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "backend {}", self.backend)?;
        for operation in &self.operations {
            match operation {
                Operation::Root { image, layer } => {
                    write!(f, "root {} ({})", image.path.display(), image.format)?;
                    match layer {
                        Layer::None => writeln!(f)?,
                        Layer::Memory => writeln!(f, ", written to in memory")?,
                        Layer::Kept(directory) => {
                            writeln!(f, ", written to in {}", directory.display())?;
                        }
                    }
                }
                Operation::Image { image, way, mount_point } => writeln!(
                    f,
                    "image {} ({}{}) at {}",
                    image.path.display(),
                    image.format,
                    match way {
                        Way::Kernel => "",
                        Way::Verified => ", verified",
                        Way::Fuse => ", through FUSE",
                        Way::Unpacked(_) => ", unpacked on this node",
                    },
                    mount_point.display()
                )?,
                Operation::Bind { source, target, read_only } => writeln!(
                    f,
                    "bind {} at {}{}",
                    source.display(),
                    target.display(),
                    if *read_only { " (read-only)" } else { "" }
                )?,
                Operation::Extend { file, lines } => {
                    writeln!(f, "lines of {}: {}", file.display(), lines.lines().count())?;
                }
                Operation::Hide { directory } => writeln!(f, "hide {}", directory.display())?,
                Operation::Empty { directory } => writeln!(f, "empty {}", directory.display())?,
            }
        }
        Ok(())
    }
}
