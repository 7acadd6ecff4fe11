// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where a file lies: in which image, on which file system, in which package.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ProcessEnvironment;
use super::package::{Package, package_of};

/// Where a file lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The label of the image, or its file; none on the host.
    pub image: Option<String>,
    /// The mount point of the image, or of the host's file system.
    pub mount_point: String,
    /// The file system: `squashfs`, `ext4`, `fuse.squashfuse_ll`.
    pub file_system: String,
    /// The package to which the file belongs.
    pub package: Option<Package>,
}

impl ProcessEnvironment {
    /// Tells where a file lies that is there.
    pub(super) fn place(&self, path: &Path) -> Place {
        let path = without_links_above(path);
        let (mount_point, file_system) = self.mounts.of(&path).unwrap_or((Path::new("/"), ""));
        // What is mounted in the tree of an image is not of this image.
        let image = self
            .images
            .iter()
            .find(|image| image.is_mounted && image.loaded.mount_point == mount_point);
        Place {
            image: image.map(super::InsideImage::title),
            mount_point: mount_point.display().to_string(),
            file_system: file_system.to_owned(),
            package: package_of(&path, mount_point),
        }
    }
}

/// Follows the links to the directory of a file, and not the file if it is one.
pub(super) fn without_links_above(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
        }
        _ => path.to_owned(),
    }
}

/// Returns every step from a link to the file, without the first.
pub(super) fn links_from(path: &Path) -> Vec<PathBuf> {
    const MOST: usize = 40;
    let mut steps: Vec<PathBuf> = Vec::new();
    let mut current = path.to_owned();
    while let Ok(target) = fs::read_link(&current) {
        let directory = current.parent().unwrap_or(Path::new("/"));
        current = without_links_above(&directory.join(target));
        steps.push(current.clone());
        if steps.len() == MOST {
            break;
        }
    }
    steps
}
