// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of images: whether they are there and what they are.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_repository::{ImageError, ImageFormat};

use crate::LocateError;

/// What an image is called inside of a directory of a repository, ours or uenv's.
const NAMES: [&str; 2] = ["image", "store.squashfs"];

/// Finds the image that was named by its path; returns its absolute path and its format.
pub(crate) fn locate_path(path: &Path) -> Result<(PathBuf, ImageFormat), LocateError> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        let inside = NAMES.iter().map(|name| path.join(name));
        let inside = inside.into_iter().find(|inside| inside.is_file());
        return Err(LocateError::Directory { path: path.to_owned(), inside });
    }
    let format = check_image(path, None)?;
    let unreadable = |source| LocateError::Unreadable { path: path.to_owned(), source };
    Ok((std::path::absolute(path).map_err(unreadable)?, format))
}

/// Looks whether a file is an image that can be used.
pub(crate) fn check_image(
    path: &Path,
    repository: Option<&Path>,
) -> Result<ImageFormat, LocateError> {
    let repository = repository.map(Path::to_owned);
    let path = path.to_owned();
    ImageFormat::of_path(&path).map_err(|error| match error {
        ImageError::Io(source) => LocateError::Unreadable { path, source },
        source => LocateError::NotAnImage { path, source, repository },
    })
}
