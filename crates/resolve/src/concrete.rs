// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is certain once everything is resolved.

use std::path::PathBuf;

use cabane_label::{Digest, Label, MountPoint};
use cabane_repository::ImageFormat;
use cabane_view::{EnvPatch, Meta, ViewName};

/// The images, views and changes of variables that make an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcreteEnvironment {
    /// The images, in the order in which they were named, and after them those on which they are built.
    pub images: Vec<ConcreteImage>,
    /// The views, in the order in which they take effect.
    pub views: Vec<ConcreteView>,
    /// The changes that the views make, one after the other.
    pub patch: EnvPatch,
    /// What the user should know although it is allowed.
    pub warnings: Vec<String>,
}

/// An image and the place where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcreteImage {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The digest, for an image of a repository.
    pub digest: Option<Digest>,
    /// The label under which the image was found.
    pub label: Option<Label>,
    /// The name of the repository in which the image was found.
    pub repository: Option<String>,
    /// The file system in the image.
    pub format: ImageFormat,
    /// The metadata; empty when the image has none. The views name the place where the image
    /// is mounted, also where it was built for another.
    pub meta: Meta,
    /// Where the image is mounted.
    pub mount_point: MountPoint,
    /// Whether it is mounted only because another image is built on it.
    pub is_base: bool,
}

impl ConcreteEnvironment {
    /// Returns the image whose root file system takes the place of the host's.
    pub fn root(&self) -> Option<&ConcreteImage> {
        self.images.iter().find(|image| image.mount_point.is_root())
    }
}

impl ConcreteImage {
    /// Returns the name by which users tell this image from others: `UENV` in `UENV:VIEW`.
    ///
    /// It is the name in the label, or else what the metadata say, which may be any text.
    pub fn name(&self) -> &str {
        self.label.as_ref().map_or(self.meta.name.as_str(), |label| label.name.as_str())
    }
}

/// A view of one of the images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcreteView {
    /// The place of the image in [`ConcreteEnvironment::images`].
    pub image: usize,
    /// The name of the view.
    pub name: ViewName,
}
