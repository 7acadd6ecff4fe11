// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images that are started and the ways to start them: Cabane's and others'.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::measure::{Candidate, NotMeasured, finish};
use crate::peers;
use crate::python_tree;

/// One tree as a directory, as squashfs and as EROFS, and a repository with both.
pub(crate) struct Images {
    /// The tree, a whole Python interpreter.
    pub(crate) tree: PathBuf,
    /// Where the images are mounted: a directory that exists, as the peers need it.
    pub(crate) mount_point: PathBuf,
    /// Where squashfuse mounts before bubblewrap takes it from there.
    fuse_mount_point: PathBuf,
    squashfs: PathBuf,
    erofs: Result<PathBuf, NotMeasured>,
    repository: Result<PathBuf, NotMeasured>,
}

/// The two formats of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Squashfs,
    Erofs,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
        }
    }

    fn label(self) -> String {
        format!("bench/1:{}@here%any", self.name())
    }
}

/// A mount point that does not exist on any machine.
const NEW_MOUNT_POINT: &str = "/cabane-bench-mount-point";

impl Images {
    /// Makes the tree and packs it.
    pub(crate) fn make(bed: &Bed) -> Result<Self, NotMeasured> {
        let mount_point = bed.directory("environment")?;
        let tree = python_tree::make(bed, &mount_point)?;
        let squashfs = bed.path("bench.squashfs");
        let mut pack = bed.command(peers::MKSQUASHFS.find()?);
        pack.arg(&tree)
            .arg(&squashfs)
            .args(["-noappend", "-all-root", "-no-progress"]);
        finish(pack.args(["-comp", "zstd", "-Xcompression-level", "3"]))?;
        let erofs = make_erofs(bed, &tree);
        let images = Self {
            repository: make_repository(bed, &squashfs, erofs.as_deref()),
            fuse_mount_point: bed.directory("fuse")?,
            tree,
            mount_point,
            squashfs,
            erofs,
        };
        Ok(images)
    }

    fn file(&self, format: Format) -> Result<&Path, NotMeasured> {
        match format {
            Format::Squashfs => Ok(&self.squashfs),
            Format::Erofs => self.erofs.as_deref().map_err(Clone::clone),
        }
    }
}

fn make_erofs(bed: &Bed, tree: &Path) -> Result<PathBuf, NotMeasured> {
    let image = bed.path("bench.erofs");
    let mut pack = bed.command(peers::MKFS_EROFS.find()?);
    pack.args(["--quiet", "--all-root", "-zlz4", "-C65536"])
        .arg(&image)
        .arg(tree);
    finish(&mut pack)?;
    Ok(image)
}

fn make_repository(
    bed: &Bed,
    squashfs: &Path,
    erofs: Result<&Path, &NotMeasured>,
) -> Result<PathBuf, NotMeasured> {
    let path = bed.path("repository");
    finish(
        bed.command(bed.cabane.as_ref().map_err(Clone::clone)?)
            .args(["repo", "create"])
            .arg(&path),
    )?;
    for (format, image) in [(Format::Squashfs, Ok(squashfs)), (Format::Erofs, erofs)] {
        if let Ok(image) = image {
            finish(
                bed.cabane(&path)?
                    .args(["image", "add", &format.label()])
                    .arg(image),
            )?;
        }
    }
    Ok(path)
}

/// Makes the candidates that start one program.
pub(crate) struct Starters<'a> {
    bed: &'a Bed,
    images: &'a Images,
    /// The program from the directory, and from the image.
    bare: Vec<OsString>,
    inside: Vec<OsString>,
}

impl<'a> Starters<'a> {
    /// Starts `true` of the system, whatever is mounted.
    pub(crate) fn of_true(bed: &'a Bed, images: &'a Images) -> Self {
        let program = vec![OsString::from("/bin/true")];
        Self {
            bed,
            images,
            bare: program.clone(),
            inside: program,
        }
    }

    /// Starts the interpreter of the tree, or of the image made from it.
    pub(crate) fn of_python(bed: &'a Bed, images: &'a Images) -> Self {
        let words = |root: &Path| vec![root.join("bin/python3").into(), "-c".into(), "pass".into()];
        Self {
            bed,
            images,
            bare: words(&images.tree),
            inside: words(&images.mount_point),
        }
    }

    pub(crate) fn bare(&self, name: &str) -> Candidate {
        Candidate::new(name, words(self.bed, &self.bare))
    }

    /// Starts the program through one that does nothing else: two starts in a row, as
    /// every program that prepares something and becomes another one is.
    pub(crate) fn through_env(&self) -> Candidate {
        let mut command = self.bed.command("/usr/bin/env");
        command.args(&self.bare);
        Candidate::new("`env` and exec", Ok(command))
    }

    pub(crate) fn mounter(&self, format: Format) -> Candidate {
        let command = || {
            let mounter = self.bed.mounter.as_ref().map_err(Clone::clone)?;
            let mut command = self.bed.command(mounter);
            command.arg(format.name()).arg(self.images.file(format)?);
            command.arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        Candidate::new(format!("mount steps alone, {}", format.name()), command())
    }

    pub(crate) fn cabane(&self, format: Format) -> Candidate {
        let name = format!("`cabane run`, {}", format.name());
        Candidate::new(name, self.cabane_run(format, "", &[], &self.inside))
    }

    /// Prints what would be mounted, mounts nothing and starts nothing.
    pub(crate) fn cabane_dry_run(&self) -> Candidate {
        let command = self.cabane_run(Format::Squashfs, "", &["--dry-run"], &self.inside);
        Candidate::new("`cabane run --dry-run`", command)
    }

    /// Mounts where there is no directory, so that a private root is made.
    pub(crate) fn cabane_at_new_mount_point(&self) -> Candidate {
        let command = self.cabane_run(
            Format::Squashfs,
            &format!(":{NEW_MOUNT_POINT}"),
            &[],
            &self.inside,
        );
        Candidate::new("`cabane run`, squashfs, mount point missing", command)
    }

    fn cabane_run(
        &self,
        format: Format,
        mount_point: &str,
        options: &[&str],
        program: &[OsString],
    ) -> Result<Command, NotMeasured> {
        self.images.file(format)?;
        let repository = self.images.repository.as_ref().map_err(Clone::clone)?;
        let mut command = self.bed.cabane(repository)?;
        command
            .arg("run")
            .args(options)
            .arg(format.label() + mount_point);
        command.arg("--").args(program);
        Ok(command)
    }

    /// What one would type without any tool.
    pub(crate) fn unshare(&self) -> Candidate {
        let script = r#"mount -o loop,ro "$1" "$2" && shift 2 && exec "$@""#;
        let command = || {
            let mut command = self.bed.command(peers::UNSHARE.find()?);
            command
                .args(["-m", "/bin/sh", "-c", script, "sh"])
                .arg(&self.images.squashfs);
            command.arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        Candidate::new("`unshare -m`, `mount -o loop`", command())
    }

    pub(crate) fn squashfs_mount(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::SQUASHFS_MOUNT.find()?);
            command
                .arg(self.image_and_mount_point())
                .arg("--")
                .args(&self.inside);
            Ok(command)
        };
        Candidate::new("squashfs-mount", command())
    }

    pub(crate) fn uenv(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::UENV.find()?);
            command
                .arg("run")
                .arg(self.image_and_mount_point())
                .arg("--")
                .args(&self.inside);
            Ok(command)
        };
        Candidate::new("`uenv run`", command())
    }

    fn image_and_mount_point(&self) -> OsString {
        let mut words = self.images.squashfs.clone().into_os_string();
        words.push(":");
        words.push(&self.images.mount_point);
        words
    }

    /// squashfuse and bubblewrap; what squashfuse mounted is unmounted off the clock.
    pub(crate) fn bubblewrap(&self) -> Candidate {
        let script = r#"fuse=$1 image=$2 from=$3 bwrap=$4 to=$5 && shift 5 &&
            "$fuse" "$image" "$from" && exec "$bwrap" --dev-bind / / --ro-bind "$from" "$to" "$@""#;
        let command = || {
            let mut command = self.bed.command("/bin/sh");
            command
                .args(["-c", script, "sh"])
                .arg(peers::SQUASHFUSE.find()?);
            command
                .arg(&self.images.squashfs)
                .arg(&self.images.fuse_mount_point);
            command
                .arg(peers::BWRAP.find()?)
                .arg(&self.images.mount_point)
                .args(&self.inside);
            Ok(command)
        };
        let candidate = Candidate::new("squashfuse_ll and bubblewrap", command());
        let Ok(fusermount) = peers::FUSERMOUNT.find() else {
            return candidate;
        };
        let mut unmount = self.bed.command(fusermount);
        unmount.arg("-u").arg(&self.images.fuse_mount_point);
        candidate.tidied_by(unmount)
    }

    /// bubblewrap without an image, from the directory.
    pub(crate) fn bubblewrap_alone(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::BWRAP.find()?);
            command.args(["--dev-bind", "/", "/"]).args(&self.bare);
            Ok(command)
        };
        Candidate::new("bubblewrap alone, no image", command())
    }
}

fn words(bed: &Bed, words: &[OsString]) -> Result<Command, NotMeasured> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let mut command = bed.command(program);
    command.args(arguments);
    Ok(command)
}
