// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI files have or need, on this machine, below a directory, or in an environment.

use std::path::{Path, PathBuf};

use cabane_environment::ImageRequest;
use cabane_label::shown;
use cabane_mpi::{Inspected, Loader, Tree, inspect};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::judgment::variable;
use crate::substitute::search;
use crate::{EnvironmentFiles, Search};

/// Inspects files of this machine, or below a directory that is taken as the root file system.
///
/// # Errors
///
/// There is no such file, or it is no program, library, or directory.
pub fn inspect_paths(
    context: &Context,
    root: Option<&Path>,
    paths: &[PathBuf],
) -> Result<Vec<Inspected>> {
    let tree = root.map_or_else(Tree::here, Tree::below);
    // Variables of this machine mean nothing below another root.
    let library_path = root.map_or_else(|| variable(context, "LD_LIBRARY_PATH"), |_| String::new());
    let loader = Loader::new(&tree).library_path(&library_path);
    let inspect_one = |path: &PathBuf| {
        let found = match root {
            Some(_) => Some(Path::new("/").join(path)),
            None => search(context, &tree).find(path),
        };
        let found = found.filter(|path| tree.find(path).is_some());
        let path = shown(path);
        let Some(found) = found else {
            let hint = "to inspect a file in an image, use `--in IMAGE PROGRAM`".to_owned();
            let text = format!("there is no file or program `{path}` here");
            return Err(Report::new(Kind::NotFound, text).hinted(hint));
        };
        inspect(&tree, &loader, &found).ok_or_else(|| {
            let hint = "of a script, name the program that it starts".to_owned();
            Report::new(Kind::BadInput, format!("{path} is no program or library")).hinted(hint)
        })
    };
    paths.iter().map(inspect_one).collect()
}

/// Inspects files in an environment, which is not entered: this program may not run there.
///
/// # Errors
///
/// As [`inspect_paths`], and those of resolving and mounting.
pub fn inspect_in_images(
    context: &Context,
    images: &ImageRequest,
    paths: &[PathBuf],
) -> Result<Vec<Inspected>> {
    let files = EnvironmentFiles::of_images(context, images)?;
    let found = files.read(context, None, |tree, _| {
        let search = Search { tree, path: &files.path };
        let loader = Loader::new(tree).library_path(&files.library_path);
        let inspect_one = |path: &PathBuf| {
            let found = search.find(path);
            let found = found.and_then(|found| inspect(tree, &loader, &found));
            found.ok_or_else(|| shown(path))
        };
        paths.iter().map(inspect_one).collect::<Result<Vec<_>, _>>()
    })?;
    found.map_err(|path| {
        let text = format!("there is no program, library, or directory {path} in the image");
        Report::new(Kind::NotFound, text)
    })
}
