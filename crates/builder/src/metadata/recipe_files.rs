// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files that make up a recipe.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cabane_label::shown;

use crate::job::Job;
use crate::{BuildError, Result, disk};

/// The most that travels with an image.
const LIMIT: u64 = 64 << 20;

/// The files that make up a recipe, by their path in it.
#[derive(Debug, Default)]
pub(crate) struct RecipeFiles {
    files: BTreeMap<PathBuf, PathBuf>,
    size: u64,
}

impl RecipeFiles {
    /// Finds the files of a recipe. Names that begin with a point belong to
    /// version control and editors, and what the engine makes into a tree is no
    /// part of it either. Where that is the whole directory, the files beside
    /// `config.yaml` and those that it names remain.
    pub(crate) fn find(job: &Job) -> Result<Self> {
        let recipe = &job.recipe_dir.path;
        let mut outside = job.engine.outside_recipe();
        let is_shallow = outside.iter().any(|path| recipe.starts_with(path));
        for directory in [&job.layout.root, &job.request.cache_dir] {
            outside.extend(fs::canonicalize(directory));
        }
        let mut found = Self::default();
        found.add_directory(recipe, recipe, &|path| {
            !(is_shallow && path.is_dir() || outside.iter().any(|one| one == path))
        })?;
        for named in job.engine.named_files() {
            if let Ok(relative) = named.strip_prefix(recipe) {
                found.add(recipe, relative.to_owned(), named.clone())?;
            }
        }
        Ok(found)
    }

    /// Finds the files of any directory by the same rules.
    pub(crate) fn of_directory(directory: &Path) -> Result<Self> {
        let mut found = Self::default();
        found.add_directory(directory, directory, &|_| true)?;
        Ok(found)
    }

    fn add_directory(
        &mut self,
        root: &Path,
        directory: &Path,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Result<()> {
        for entry in disk::entries("list", directory)? {
            let path = entry.path();
            if is_left_out(&entry.file_name()) || !wanted(&path) {
                continue;
            }
            let kind = entry.file_type().map_err(BuildError::file("list", directory))?;
            // A link counts as the file it leads to; one to a directory could
            // lead anywhere.
            if kind.is_dir() {
                self.add_directory(root, &path, wanted)?;
            } else if path.is_file() {
                let relative = path.strip_prefix(root).unwrap_or(&path).to_owned();
                self.add(root, relative, path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, relative: PathBuf, path: PathBuf) -> Result<()> {
        let found = fs::metadata(&path).map_err(BuildError::file("look at", &path))?;
        if self.files.insert(relative, path).is_none() {
            self.size += found.len();
        }
        if self.size > LIMIT {
            return Err(too_large(root));
        }
        Ok(())
    }

    /// Goes through the paths in the recipe and the paths in the system.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.files.iter().map(|(relative, path)| (relative.as_path(), path.as_path()))
    }

    /// Copies the files into a directory.
    pub(super) fn copy_to(&self, directory: &Path) -> Result<()> {
        disk::make_directory(directory)?;
        for (relative, path) in self.iter() {
            copy_file(path, &directory.join(relative))?;
        }
        Ok(())
    }
}

fn too_large(directory: &Path) -> BuildError {
    BuildError::refused(
        format!(
            "the files in {}, which travel in the metadata, have more than {} MiB",
            shown(directory),
            LIMIT >> 20
        ),
        "keep data elsewhere; names in a recipe that start with `.` are left out",
    )
}

fn is_left_out(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".") || name == "__pycache__"
}

/// Copies the metadata that a tree brings, with everything that is in it.
pub(crate) fn copy_all(source: &Path, target: &Path) -> Result<()> {
    let mut space = LIMIT;
    copy_directory(source, target, &mut space)
}

fn copy_directory(source: &Path, target: &Path, space: &mut u64) -> Result<()> {
    disk::make_directory(target)?;
    let failed = || BuildError::file("copy", source);
    for entry in disk::entries("copy", source)? {
        let (path, target) = (entry.path(), target.join(entry.file_name()));
        let found = entry.metadata().map_err(failed())?;
        if found.is_dir() {
            copy_directory(&path, &target, space)?;
        } else if found.is_symlink() {
            fs::read_link(&path)
                .and_then(|destination| symlink(destination, &target))
                .map_err(failed())?;
        } else {
            *space = space.checked_sub(found.len()).ok_or_else(|| too_large(source))?;
            copy_file(&path, &target)?;
        }
    }
    Ok(())
}

/// Copies content and whether it may be executed, and nothing else that differs
/// from one user to the next.
pub(crate) fn copy_file(source: &Path, target: &Path) -> Result<()> {
    if let Some(parent) = target.parent() {
        disk::make_directory(parent)?;
    }
    let mode =
        fs::metadata(source).map_err(BuildError::file("look at", source))?.permissions().mode();
    fs::copy(source, target).map_err(BuildError::file("copy", source))?;
    let wanted = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
    fs::set_permissions(target, fs::Permissions::from_mode(wanted))
        .map_err(BuildError::file("change the mode of", target))
}
