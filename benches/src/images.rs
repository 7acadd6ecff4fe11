// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images that are started.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::measure::{NotMeasured, finish};
use crate::users::as_ordinary_user;
use crate::{container, peers, python_tree};

/// One tree as a directory, as squashfs and as EROFS, and a repository with both.
#[derive(Clone)]
pub(crate) struct Images {
    /// The tree, a whole Python interpreter.
    pub(crate) tree: PathBuf,
    /// Where the images are mounted: a directory that exists, as the peers need it.
    pub(crate) mount_point: PathBuf,
    /// Where squashfuse mounts before bubblewrap takes it from there.
    pub(crate) fuse_mount_point: PathBuf,
    /// The repository with both.
    pub(crate) repository: Result<PathBuf, NotMeasured>,
    /// A copy for others, who use the loop device of a file again no matter who made it: they
    /// must not find ours.
    pub(crate) for_peers: PathBuf,
    squashfs: PathBuf,
    erofs: Result<PathBuf, NotMeasured>,
    container: Result<PathBuf, NotMeasured>,
}

/// The two formats of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Squashfs,
    Erofs,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
        }
    }

    pub(crate) fn label(self) -> String {
        format!("bench/1:{}@here%any", self.name())
    }
}

impl From<Format> for cabane_mount::ImageFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Squashfs => Self::Squashfs,
            Format::Erofs => Self::Erofs,
        }
    }
}

impl Images {
    /// Makes the tree of the interpreter and packs it.
    pub(crate) fn make(bed: &Bed) -> Result<Self, NotMeasured> {
        let mount_point = match bed.world.mount_points.first() {
            Some(path) => path.clone(),
            None => bed.directory("environment")?,
        };
        let tree = python_tree::make(bed, &mount_point)?;
        let images = Self::pack(bed, "bench", tree, mount_point)?;
        let container = peers::CH_RUN
            .find()
            .and_then(|_| container::make(bed, &images.tree, &images.mount_point));
        Ok(Self { container, ..images })
    }

    /// Makes the same as squashfs only, for machines on which everything takes long.
    pub(crate) fn only_squashfs(bed: &Bed) -> Result<Self, NotMeasured> {
        let mount_point = bed.world.mount_points.first().ok_or("there is no mount point")?;
        let tree = python_tree::make(bed, mount_point)?;
        let squashfs = make_squashfs(bed, &tree, &bed.path("bench.squashfs"))?;
        let other = || Err("only squashfs is measured here".to_owned());
        let repository = bed.path("repository-bench");
        Ok(Self {
            repository: make_repository(bed, repository, &squashfs, Err(&String::new())),
            fuse_mount_point: bed.directory("fuse")?,
            tree,
            mount_point: mount_point.clone(),
            for_peers: squashfs.clone(),
            squashfs,
            erofs: other(),
            container: other(),
        })
    }

    /// Makes the same with numpy, in files of this name.
    pub(crate) fn with_numpy(bed: &Bed) -> Result<Self, NotMeasured> {
        let plain = bed.images()?;
        let tree = python_tree::with_numpy(bed, &plain.tree)?;
        Self::pack(bed, "numpy", tree, plain.mount_point.clone())
    }

    fn pack(
        bed: &Bed,
        name: &str,
        tree: PathBuf,
        mount_point: PathBuf,
    ) -> Result<Self, NotMeasured> {
        let squashfs = make_squashfs(bed, &tree, &bed.path(&format!("{name}.squashfs")))?;
        let for_peers = bed.path(&format!("{name}-peers.squashfs"));
        fs::copy(&squashfs, &for_peers).map_err(|error| format!("no copy of it: {error}"))?;
        let erofs = make_erofs(bed, &tree, &bed.path(&format!("{name}.erofs")));
        let repository = bed.path(&format!("repository-{name}"));
        Ok(Self {
            repository: make_repository(bed, repository, &squashfs, erofs.as_deref()),
            fuse_mount_point: bed.directory("fuse")?,
            tree,
            mount_point,
            for_peers,
            squashfs,
            erofs,
            container: Err("there is no such container".to_owned()),
        })
    }

    /// Makes the same in a repository that belongs to the ordinary user.
    pub(crate) fn of_ordinary_user(&self, bed: &Bed) -> Result<Self, NotMeasured> {
        let repository = bed.directory("own")?.join("repository");
        let repository = as_ordinary_user(|| {
            make_repository(bed, repository, &self.squashfs, Err(&String::new()))
        });
        Ok(Self { repository, ..self.clone() })
    }

    /// Returns the image of a format.
    pub(crate) fn file(&self, format: Format) -> Result<&Path, NotMeasured> {
        match format {
            Format::Squashfs => Ok(&self.squashfs),
            Format::Erofs => self.erofs.as_deref().map_err(Clone::clone),
        }
    }

    /// Returns the image that is a whole root file system, with the interpreter at the
    /// mount point.
    pub(crate) fn container(&self) -> Result<&Path, NotMeasured> {
        self.container.as_deref().map_err(Clone::clone)
    }
}

/// The word for an image at a mount point.
pub(crate) fn image_at(image: &Path, mount_point: &Path) -> OsString {
    let mut word = OsString::from(image);
    word.push(":");
    word.push(mount_point);
    word
}

pub(crate) fn make_squashfs(bed: &Bed, tree: &Path, image: &Path) -> Result<PathBuf, NotMeasured> {
    let mut pack = bed.command(peers::MKSQUASHFS.find()?);
    pack.arg(tree).arg(image).args(["-noappend", "-all-root", "-no-progress"]);
    finish(pack.args(["-comp", "zstd", "-Xcompression-level", "3"]))?;
    Ok(image.to_owned())
}

pub(crate) fn make_erofs(bed: &Bed, tree: &Path, image: &Path) -> Result<PathBuf, NotMeasured> {
    let mut pack = bed.command(peers::MKFS_EROFS.find()?);
    pack.args(["--quiet", "--all-root", "-zlz4", "-C65536"]).arg(image).arg(tree);
    finish(&mut pack)?;
    Ok(image.to_owned())
}

fn make_repository(
    bed: &Bed,
    path: PathBuf,
    squashfs: &Path,
    erofs: Result<&Path, &NotMeasured>,
) -> Result<PathBuf, NotMeasured> {
    finish(
        bed.command(bed.cabane.as_ref().map_err(Clone::clone)?).args(["repo", "create"]).arg(&path),
    )?;
    for (format, image) in [(Format::Squashfs, Ok(squashfs)), (Format::Erofs, erofs)] {
        if let Ok(image) = image {
            finish(bed.cabane(&path)?.args(["image", "add", &format.label()]).arg(image))?;
        }
    }
    Ok(path)
}
