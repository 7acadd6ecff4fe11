// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata inside an image that is outside a repository.
//!
//! The image is mounted for a moment; the same ways of mounting serve as for running, so
//! an image whose metadata can be read can be used.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use cabane_mount::helper::Helper;
use cabane_mount::{
    Backend, FusePrograms, ImageFile, attach, enter_private_namespace, open_in_image,
};
use cabane_process::child::ask;
use cabane_report::{Kind, Report, Result};
use cabane_view::Meta;
use rustix::fs::{Dir, FileType};

use crate::through_helper::Held;

/// The directory of an image that holds its metadata.
const DIRECTORY: &str = "meta";
const MAX_FILES: usize = 50_000;
const MAX_BYTES: u64 = 256 << 20;

/// An image cannot be looked into.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the metadata in {}: {reason}", path.display())]
pub struct NotRead {
    /// The image file.
    pub path: PathBuf,
    /// What stood in the way.
    pub reason: String,
    /// What can be done about it.
    pub hint: Option<String>,
}

impl From<NotRead> for Report {
    fn from(mut error: NotRead) -> Self {
        let hint = error.hint.take();
        Self::new(Kind::NotStarted, error).hinted(hint)
    }
}

/// The ways in which images may be looked into.
#[derive(Clone, Debug)]
pub struct MountMethods {
    /// What this process can do by itself.
    pub backend: Backend,
    /// The programs that serve images through FUSE.
    pub fuse: FusePrograms,
    /// The set-uid helper, if there is one and it may be used. It is better than FUSE:
    /// what is looked into is mounted for the next start then.
    pub helper: Option<Helper>,
}

/// Reads `meta/env.json` of an image; `None` if it has none.
///
/// # Errors
///
/// The image cannot be mounted or the file not be read.
pub fn read(image: &ImageFile, methods: &MountMethods) -> Result<Option<Vec<u8>>> {
    let answer = look_into(&[image], methods, |mounts| {
        let mount = only(mounts)?;
        let file = match open_in_image(mount.as_fd(), Path::new("meta/env.json")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        // One byte more than allowed, so that the reader notices.
        file.take(Meta::MAX_SIZE + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    })?;
    Ok(Some(answer).filter(|bytes| !bytes.is_empty()))
}

/// Copies the metadata directory of an image to `destination`, which must exist.
/// Only plain files and directories are copied, and nothing if there is none.
///
/// # Errors
///
/// That it cannot be read, also if there is more of it than an image may carry.
pub fn copy(image: &ImageFile, methods: &MountMethods, destination: &Path) -> Result<()> {
    look_into(&[image], methods, |mounts| {
        let mount = only(mounts)?;
        let mut budget = Budget { files: MAX_FILES, bytes: MAX_BYTES };
        copy_directory(mount, Path::new(DIRECTORY), destination, &mut budget)?;
        Ok(Vec::new())
    })?;
    Ok(())
}

/// Returns the names in a directory of an image; none if it has no such directory.
///
/// # Errors
///
/// The image cannot be mounted or the directory not be read.
pub fn names_in(
    image: &ImageFile,
    methods: &MountMethods,
    directory: &Path,
) -> Result<Vec<PathBuf>> {
    let answer = look_into(&[image], methods, |mounts| {
        let directory = match open_in_image(only(mounts)?.as_fd(), directory) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(directory.as_fd())?.take(MAX_FILES) {
            names.extend_from_slice(entry?.file_name().to_bytes());
            names.push(0);
        }
        Ok(names)
    })?;
    let names = answer.split(|byte| *byte == 0);
    let names = names.filter(|name| !matches!(*name, b"" | b"." | b".."));
    Ok(names.map(|name| OsString::from_vec(name.to_vec()).into()).collect())
}

/// Separates what stood in the way from what can be done about it: an error crosses
/// from one process to the other as a text.
const HINT: char = '\0';

/// Mounts images for a moment and returns what `look` finds in them; it gets them in the
/// same order. The helper mounts them for processes of ours, and otherwise a copy of this
/// process does.
///
/// # Errors
///
/// An image cannot be mounted, or what `look` returns.
pub fn look_into(
    images: &[&ImageFile],
    methods: &MountMethods,
    look: impl FnOnce(&[OwnedFd]) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, NotRead> {
    let failed = |text: String| {
        let (reason, hint) = match text.split_once(HINT) {
            Some((reason, hint)) => (reason.to_owned(), Some(hint.to_owned())),
            None => (text, None),
        };
        NotRead {
            path: images.first().map(|image| image.path.clone()).unwrap_or_default(),
            reason,
            hint,
        }
    };
    let held = methods.helper.as_ref().map(|helper| {
        let held = images.iter().map(|image| Held::mount(helper, image));
        held.collect::<io::Result<Vec<_>>>()
    });
    if let Some(Ok(held)) = held {
        let roots = held.iter().map(|held| held.root.try_clone());
        let roots: io::Result<Vec<_>> = roots.collect();
        return roots.and_then(|roots| look(&roots)).map_err(|error| failed(error.to_string()));
    }
    ask(|| {
        enter_private_namespace(methods.backend).map_err(|error| as_text(&error))?;
        let mut mounts = Vec::with_capacity(images.len());
        for image in images {
            mounts.push(
                attach(methods.backend, image, &methods.fuse).map_err(|error| as_text(&error))?,
            );
        }
        look(&mounts).map_err(|error| error.to_string())
    })
    .map_err(|error| failed(error.to_string()))?
    .map_err(failed)
}

fn as_text(error: &cabane_mount::Error) -> String {
    let hint = error.hint().map(|hint| format!("{HINT}{hint}")).unwrap_or_default();
    chain(error) + &hint
}

fn only(mounts: &[OwnedFd]) -> io::Result<&OwnedFd> {
    let none = || io::Error::other("no image was mounted");
    mounts.first().ok_or_else(none)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

struct Budget {
    files: usize,
    bytes: u64,
}

impl Budget {
    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let too_much = || io::Error::other("the image carries too much metadata");
        self.files = self.files.checked_sub(1).ok_or_else(too_much)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_much)?;
        Ok(())
    }
}

fn copy_directory(
    mount: &OwnedFd,
    relative: &Path,
    destination: &Path,
    budget: &mut Budget,
) -> io::Result<()> {
    let directory = match open_in_image(mount.as_fd(), relative) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let name: PathBuf = OsString::from_vec(name.to_vec()).into();
        let (from, to) = (relative.join(&name), destination.join(&name));
        match entry.file_type() {
            FileType::Directory => {
                budget.spend(0)?;
                fs::create_dir(&to)?;
                copy_directory(mount, &from, &to, budget)?;
            }
            FileType::RegularFile => {
                let mut file = open_in_image(mount.as_fd(), &from)?;
                budget.spend(file.metadata()?.len())?;
                io::copy(&mut file, &mut File::create_new(&to)?)?;
            }
            _ => {}
        }
    }
    Ok(())
}
