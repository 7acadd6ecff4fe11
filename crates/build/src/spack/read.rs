// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading the files of a recipe and of a system.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cabane_recipe::{
    FileText, MAX_FILE_SIZE, StackFiles, StackOptions, StackRecipe, SystemConfig, SystemFiles,
    parse_stack, parse_system,
};

use crate::{BuildError, disk};

/// A file as it was found.
struct Text {
    path: PathBuf,
    text: Vec<u8>,
}

impl Text {
    fn read(directory: &Path, name: &str) -> Result<Option<Self>, BuildError> {
        let path = directory.join(name);
        // One byte more than is allowed tells the parser that there is too much.
        match disk::read_start(&path, MAX_FILE_SIZE + 1) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BuildError::file("read", &path)(error)),
        }
    }

    fn needed(directory: &Path, name: &'static str) -> Result<Self, BuildError> {
        Self::read(directory, name)?.ok_or_else(|| BuildError::NoSuchFile {
            directory: directory.to_owned(),
            name,
        })
    }

    fn shown(&self) -> FileText<'_> {
        FileText {
            path: &self.path,
            text: &self.text,
        }
    }
}

/// Reads the configuration of a system.
///
/// # Errors
///
/// [`BuildError::NoSuchFile`] if there is no `packages.yaml`, [`BuildError::Recipe`] with
/// every mistake in its files.
pub fn read_system(directory: &Path) -> Result<SystemConfig, BuildError> {
    let packages = Text::needed(directory, "packages.yaml")?;
    let network = Text::read(directory, "network.yaml")?;
    let repos = Text::read(directory, "repos.yaml")?;
    let mirrors = Text::read(directory, "mirrors.yaml")?;
    Ok(parse_system(&SystemFiles {
        packages: packages.shown(),
        network: network.as_ref().map(Text::shown),
        repos: repos.as_ref().map(Text::shown),
        mirrors: mirrors.as_ref().map(Text::shown),
    })?)
}

/// Reads the files of a recipe for Spack. Without a system, nobody can tell whether it
/// has the MPI that the recipe names.
///
/// # Errors
///
/// [`BuildError::NoRecipe`] if there is none, [`BuildError::Recipe`] with every mistake
/// in its files.
pub fn read_stack(directory: &Path, options: &StackOptions<'_>) -> Result<StackRecipe, BuildError> {
    let config = Text::read(directory, "config.yaml")?;
    let config = config.ok_or_else(|| BuildError::NoRecipe {
        path: directory.to_owned(),
    })?;
    let others = [
        "compilers.yaml",
        "environments.yaml",
        "modules.yaml",
        "packages.yaml",
    ];
    let [compilers, environments, modules, packages] =
        others.map(|name| Text::read(directory, name));
    let (compilers, environments) = (compilers?, environments?);
    let (modules, packages) = (modules?, packages?);
    let files = StackFiles {
        config: config.shown(),
        compilers: compilers.as_ref().map(Text::shown),
        environments: environments.as_ref().map(Text::shown),
        modules: modules.as_ref().map(Text::shown),
        packages: packages.as_ref().map(Text::shown),
    };
    Ok(parse_stack(&files, options)?)
}
