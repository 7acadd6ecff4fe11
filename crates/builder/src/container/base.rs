// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The image in which commands run: layers and files, before any command.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use cabane_container::export::{Walking, write_tree};
use cabane_container::{Converted, ImportRecord, Layer, streamed};
use cabane_mount::{
    Backend, FusePrograms, ImageFile, ImageFormat, attach, enter_private_namespace,
};
use cabane_process::child::ask;
use cabane_view::Meta;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{BuildError, BuildRequest, Result, disk};

/// Where it is, in the work directory.
const BASE: &str = "base";
const IMAGE: &str = "image.squashfs";
const META: &str = "env.json";
const MOST: u64 = 64 << 20;
/// What is in every image and not in a layer.
const OWN: &[&str] = &["meta"];

/// The image in which commands run, and what is known about it.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) image: PathBuf,
    /// What the container image says about itself.
    pub(super) meta: Meta,
    /// What was done to make it.
    pub(super) record: ImportRecord,
}

impl Base {
    fn directory(work: &Path) -> PathBuf {
        work.join(BASE)
    }

    /// Where the image is to be written.
    pub(super) fn prepare(work: &Path) -> Result<PathBuf> {
        let directory = Self::directory(work);
        disk::make_empty(&directory)?;
        Ok(directory.join(IMAGE))
    }

    /// Keeps what is known about the image.
    pub(super) fn keep(work: &Path, converted: &Converted) -> Result<()> {
        let directory = Self::directory(work);
        for (name, bytes) in converted.documents() {
            disk::write(&directory.join(name), &bytes)?;
        }
        Ok(())
    }

    /// Finds the image; none if it has not been made.
    pub(super) fn find(work: &Path) -> Option<Self> {
        let directory = Self::directory(work);
        let image = directory.join(IMAGE);
        let meta = Meta::from_json(&disk::read_start(&directory.join(META), MOST).ok()?).ok()?;
        let record = disk::read_json(&directory.join(ImportRecord::FILE), MOST)?;
        image.is_file().then_some(Self { image, meta, record })
    }

    /// As [`Self::find`], where it must be there.
    pub(super) fn require(work: &Path) -> Result<Self> {
        Self::find(work).ok_or_else(|| BuildError::gone(&Self::directory(work)))
    }

    /// Puts what is known about it into metadata of an image that is made of it, and of nothing but
    /// layers on it.
    pub(super) fn describe(&self, meta: &mut Meta, record: &mut ImportRecord) {
        let found = std::mem::replace(meta, self.meta.clone());
        // What is seen in the files may have changed.
        meta.needs.mpi = found.needs.mpi;
        if let Some(container) = &mut meta.container {
            container.glibc = found.container.and_then(|one| one.glibc);
        }
        record.manifest.clone_from(&self.record.manifest);
        record.index.clone_from(&self.record.index);
        // The first one is all of those of this image.
        record.layers.splice(..1.min(record.layers.len()), self.record.layers.iter().cloned());
        record.changed.add(&self.record.changed);
    }

    pub(super) fn open(&self) -> Result<ImageFile> {
        open(&self.image).map_err(BuildError::file("open the image", &self.image))
    }

    /// Returns its tree as a layer.
    pub(super) fn layer(&self, request: &BuildRequest) -> Layer<'static> {
        let (path, backend, fuse) = (self.image.clone(), request.backend, request.fuse.clone());
        let name = cabane_label::shown(&path).clone();
        Layer::of_files(name, move || {
            let (path, fuse) = (path.clone(), fuse.clone());
            streamed(move |into| write(&path, backend, &fuse, into))
        })
    }
}

fn open(path: &Path) -> io::Result<ImageFile> {
    let file = File::open(path)?;
    let format = ImageFormat::Squashfs;
    Ok(ImageFile { file, path: path.to_owned(), format, verity: None })
}

/// Mounts an image in a copy of this process, which writes its tree as an archive.
fn write(
    path: &Path,
    backend: Backend,
    fuse: &FusePrograms,
    into: io::PipeWriter,
) -> io::Result<()> {
    let image = open(path)?;
    let backend = if backend == Backend::Root { backend } else { Backend::UserNamespace };
    let answer = ask(move || {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| text(&error))?;
        enter_private_namespace(backend).map_err(|error| text(&error))?;
        let mount = attach(backend, &image, fuse).map_err(|error| text(&error))?;
        let walking = Walking { place: "/", without: OWN, settled: None };
        write_tree(mount.as_fd(), &walking, into).map_err(|error| text(&error))?;
        Ok(Vec::new())
    });
    answer?.map(drop).map_err(io::Error::other)
}
