// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The image that is checked: found as for a start, with its metadata.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use cabane_environment::{ImageRequest, find_environment};
use cabane_label::{Digest, Label, escape, shown};
use cabane_process::Scratch;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::ConcreteImage;
use cabane_run::difference::packages_in_metadata;
use cabane_run::{metadata, open_image};
use cabane_site::Context;
use cabane_view::{Meta, PackageList, RecipeChecks};

/// The largest `extra/reframe.yaml` that is read, in bytes.
const MAX_REFRAME: u64 = 1024 * 1024;

/// An image, and what its metadata says about checks.
#[derive(Debug)]
pub struct Subject {
    /// The image as it was typed.
    pub typed: String,
    /// Its file.
    pub path: PathBuf,
    /// Its label, if it was found by one.
    pub label: Option<Label>,
    /// Its sha256.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Whether a repository has it.
    is_kept: bool,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The values of `srun --mpi` for its MPI; none if it has no MPI or they are not known.
    pub pmi: Vec<String>,
    /// The checks of its recipe.
    pub checks: RecipeChecks,
    /// Its packages, as far as it lists them.
    pub packages: PackageList,
    /// What its `extra/reframe.yaml` says about environments for suites of `ReFrame`.
    pub(crate) reframe: Option<Vec<u8>>,
}

impl Subject {
    /// Finds one image. If its results are to be signed, the metadata that a repository has beside it must
    /// be those in the image: a registry may have given other ones, with fewer checks.
    ///
    /// # Errors
    ///
    /// What was typed is several images or none; the image or its metadata cannot be read.
    pub fn find(context: &Context, typed: &str, is_signed: bool) -> Result<Self> {
        let request = ImageRequest::new(typed, None, true);
        let mut images = find_environment(context, &request)?.0.images;
        images.retain(|image| !image.is_base);
        let [image] = <[ConcreteImage; 1]>::try_from(images).map_err(|_| {
            let message = format!("{} is not one image", escape(typed));
            Report::new(Kind::Usage, message).hinted("name the images one by one".to_owned())
        })?;
        Self::of(context, typed, &image, is_signed)
    }

    fn of(context: &Context, typed: &str, image: &ConcreteImage, is_signed: bool) -> Result<Self> {
        let path = &image.path;
        let size = fs::metadata(path).or_failed(|| format!("look at {}", shown(path)))?.len();
        let digest = match &image.digest {
            Some(digest) => digest.clone(),
            None => sum_of(context, path, size)?,
        };
        let beside = image.digest.as_ref().and(path.parent()).map(|parent| parent.join("meta"));
        let beside = beside.filter(|directory| directory.is_dir());
        let is_copied = is_signed || beside.is_none();
        let copy = if is_copied { Some(copy_metadata(context, image)?) } else { None };
        if let (Some(beside), Some(copy)) = (&beside, &copy) {
            compare(typed, beside, copy.path())?;
        }
        let directory = beside.as_deref().or(copy.as_ref().map(Scratch::path)).unwrap_or(path);
        let checks = image.meta.checks.read().map_err(|error| {
            let message = "malformed checks in meta/env.json of the image".to_owned();
            Report::caused(Kind::BadInput, message, error)
        })?;
        let commands = checks.commands.iter().filter(|check| !check.is_possible());
        let changes = checks.builtins.iter().filter(|change| !change.is_possible());
        let wrong = commands.map(|check| &check.name).chain(changes.map(|change| &change.builtin));
        if let Some(name) = wrong.into_iter().next() {
            let name = escape(name);
            let message = format!("the check `{name}` in meta/env.json of the image is impossible");
            return Err(Report::new(Kind::BadInput, message));
        }
        let packages = packages_in_metadata(|name| {
            read(&directory.join(name), PackageList::MAX_SIZE).ok().flatten()
        });
        Ok(Self {
            typed: typed.to_owned(),
            path: path.clone(),
            label: image.label.clone(),
            digest,
            size,
            is_kept: image.digest.is_some(),
            mount_point: image.mount_point.as_path().to_owned(),
            pmi: image.meta.needs.mpi.as_ref().map(|mpi| mpi.srun.clone()).unwrap_or_default(),
            checks,
            packages: packages.unwrap_or_default(),
            reframe: reframe(directory)?,
        })
    }

    /// Returns the directory of the repository that has the image: `<directory>/images/<digest>/image`.
    pub(crate) fn repository(&self) -> Option<&Path> {
        self.path.ancestors().nth(3).filter(|_| self.is_kept)
    }

    /// Returns what a later command is given for the image. A label could move; a digest cannot.
    pub(crate) fn argument(&self) -> OsString {
        if self.is_kept { self.digest.as_str().into() } else { self.path.clone().into() }
    }
}

/// Refuses metadata beside an image that are not those in it.
fn compare(typed: &str, beside: &Path, inside: &Path) -> Result<()> {
    let text = |directory: &Path| {
        let path = directory.join("env.json");
        read(&path, Meta::MAX_SIZE).or_failed(|| format!("read {}", shown(&path)))
    };
    if text(beside)? == text(inside)? && reframe(beside)? == reframe(inside)? {
        return Ok(());
    }
    let message = format!("the metadata beside {} are not those in the image", escape(typed));
    Err(Report::new(Kind::Untrusted, message)
        .hinted("remove the image from the repository, and pull or add it again".to_owned()))
}

/// Reads what metadata says about environments for suites of `ReFrame`. Images of uenv have it beside the
/// recipe, and those that were built here in it.
fn reframe(metadata: &Path) -> Result<Option<Vec<u8>>> {
    for name in ["extra/reframe.yaml", "recipe/extra/reframe.yaml"] {
        let path = metadata.join(name);
        let found = read(&path, MAX_REFRAME).or_failed(|| format!("read {}", shown(&path)))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Copies the metadata out of an image that no repository has.
fn copy_metadata(context: &Context, image: &ConcreteImage) -> Result<Scratch> {
    let scratch = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let file = open_image(&image.path, image.format)?;
    metadata::copy(&file, &context.mount_methods(), scratch.path())?;
    Ok(scratch)
}

/// Reads a file; `None` if there is none.
fn read(path: &Path, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the reader notices.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}

fn sum_of(context: &Context, path: &Path, size: u64) -> Result<Digest> {
    let watched = context.transfer(&format!("reading {}", shown(path)));
    let sum = cabane_registry::sum::file(path, &mut |done, _| watched.show(done, size));
    watched.end();
    Ok(sum?)
}
