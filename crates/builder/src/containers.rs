// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where container images come from, and what is put on them: for the caller to know.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cabane_container::{ContainerImage, Layer};
use cabane_label::{Digest, MountPoint};
use cabane_mount::ImageFormat;
use cabane_view::{EnvPatch, ProcessorNeed};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A container image that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundContainer {
    /// Its name in full.
    pub reference: String,
    /// For which platform it is.
    pub platform: String,
    /// The digest of its manifest, `sha256:…`, or of what tells it from others.
    pub digest: String,
    /// The digest of the list in which it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
}

/// What is done with a container image while it can be read.
pub type UseContainer<'a> = dyn FnMut(ContainerImage<'_>) -> Result<()> + 'a;

/// An image that is put on a container image.
pub struct AddedImage {
    /// By which name it is known.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// The C library that it needs, if that is known.
    pub glibc: Option<String>,
    /// The processor that it needs, if not every one will do.
    pub processor: Option<ProcessorNeed>,
    /// Its tree, at the place where it is mounted.
    pub layer: Layer<'static>,
}

/// Images that are put on a container image.
pub struct AddedImages {
    /// The images, in their order.
    pub images: Vec<AddedImage>,
    /// What their default views change.
    pub patch: EnvPatch,
}

/// As [`ImageFormat`], for workers.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ImageFormat", rename_all = "kebab-case")]
enum FormatOfBase {
    Squashfs,
    Erofs,
}

/// An image of packages on which another one is built.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackBase {
    /// How the recipe names it; the label, if it is the base of a base.
    pub label: String,
    /// Its digest.
    pub digest: Digest,
    /// Where it is mounted.
    pub mount_point: MountPoint,
    /// Its file.
    pub file: PathBuf,
    /// The file system in it.
    #[serde(with = "FormatOfBase")]
    pub format: ImageFormat,
    /// The directory with a copy of its metadata, if there is one.
    pub metadata: Option<PathBuf>,
    /// Whether Spack has built it.
    pub is_stack: bool,
}

/// Where container images come from.
pub trait Containers: fmt::Debug + Send + Sync {
    /// Finds out which image a name stands for now. Paths are relative to `directory`.
    ///
    /// # Errors
    ///
    /// There is none, or none for the platform.
    fn find(&self, from: &str, directory: &Path, platform: Option<&str>) -> Result<FoundContainer>;

    /// Gets an image that was found before, and lets it be used.
    ///
    /// # Errors
    ///
    /// It is not there any more; whatever `use_it` returns.
    fn open(
        &self,
        from: &str,
        directory: &Path,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut UseContainer<'_>,
    ) -> Result<()>;

    /// Finds images of ours that are put on it, by what is typed to enter them.
    ///
    /// # Errors
    ///
    /// One is not there, or has a root file system of its own.
    fn images(&self, names: &[String]) -> Result<AddedImages>;

    /// Finds an image of packages by what is typed to enter it, and the images on which it was built:
    /// all that are mounted while another image is built on it, the nearest first.
    ///
    /// # Errors
    ///
    /// One is not there, or has a root file system of its own.
    fn stack_bases(&self, name: &str) -> Result<Vec<StackBase>>;
}
