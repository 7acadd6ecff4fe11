// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of recipes for Spack and of systems, read from their directories.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use cabane_recipe::{
    EngineConfig, FileText, MAX_FILE_SIZE, Mirrors, Recipe, RecipeError, StackFiles, StackOptions,
    StackRecipe, SystemConfig, SystemFiles, parse_mirrors, parse_stack, parse_system,
};
use cabane_spack::{OwnPackages, Places, SpackStack, lower};

use crate::convert;
use crate::exit_codes;
use crate::report::{CommandError, CommandResult, IoContext as _};
use crate::setup::Setup;

/// The text of a file, with its path.
struct Text {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Text {
    fn as_file(&self) -> FileText<'_> {
        FileText {
            path: &self.path,
            text: &self.bytes,
        }
    }

    /// Reads a file that need not be there.
    fn read(path: PathBuf) -> CommandResult<Option<Self>> {
        let mut bytes = Vec::new();
        // One byte more than is allowed tells the parser that there is too much.
        let read =
            File::open(&path).and_then(|file| file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(Self { path, bytes })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).or_failed(|| format!("read {}", path.display())),
        }
    }

    fn read_needed(path: PathBuf) -> CommandResult<Self> {
        let name = path.display().to_string();
        Self::read(path)?
            .ok_or_else(|| io::Error::from(ErrorKind::NotFound))
            .or_failed(|| format!("read {name}"))
            .map_err(|error| error.with_code(exit_codes::BAD_INPUT))
    }
}

/// The files of a recipe.
pub(super) struct RecipeTexts {
    config: Text,
    compilers: Option<Text>,
    environments: Option<Text>,
    modules: Option<Text>,
    packages: Option<Text>,
}

impl RecipeTexts {
    pub(super) fn read(directory: &Path) -> CommandResult<Self> {
        let read = |name: &str| Text::read(directory.join(name));
        Ok(Self {
            config: Text::read_needed(directory.join("config.yaml"))?,
            compilers: read("compilers.yaml")?,
            environments: read("environments.yaml")?,
            modules: read("modules.yaml")?,
            packages: read("packages.yaml")?,
        })
    }

    pub(super) fn parse(&self, options: &StackOptions<'_>) -> Result<StackRecipe, RecipeError> {
        parse_stack(&self.files(), options)
    }

    pub(super) fn files(&self) -> StackFiles<'_> {
        StackFiles {
            config: self.config.as_file(),
            compilers: self.compilers.as_ref().map(Text::as_file),
            environments: self.environments.as_ref().map(Text::as_file),
            modules: self.modules.as_ref().map(Text::as_file),
            packages: self.packages.as_ref().map(Text::as_file),
        }
    }
}

/// Tells whether a recipe is for Spack: it says so, or it is malformed and has
/// files that only such recipes have.
pub(super) fn is_for_spack(directory: &Path, recipe: Option<&Recipe>) -> bool {
    match recipe {
        Some(recipe) => matches!(recipe.engine, EngineConfig::Spack(_)),
        None => ["compilers.yaml", "environments.yaml"]
            .iter()
            .any(|name| directory.join(name).exists()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{} is not a package repository", path.display())]
struct NoPackages {
    path: PathBuf,
}

/// Reads the configuration of a system, and another `mirrors.yaml` if one is named.
pub(super) fn system(directory: &Path, mirrors: Option<&Path>) -> CommandResult<SystemConfig> {
    let read = |name: &str| Text::read(directory.join(name));
    let packages = Text::read_needed(directory.join("packages.yaml")).map_err(|error| {
        error.hinted(
            "a system is a directory with packages.yaml, network.yaml, repos.yaml".to_owned(),
        )
    })?;
    let network = read("network.yaml")?;
    let repos = read("repos.yaml")?;
    let own_mirrors = match mirrors {
        Some(_) => None,
        None => read("mirrors.yaml")?,
    };
    let mut system = parse_system(&SystemFiles {
        packages: packages.as_file(),
        network: network.as_ref().map(Text::as_file),
        repos: repos.as_ref().map(Text::as_file),
        mirrors: own_mirrors.as_ref().map(Text::as_file),
    })
    .map_err(|error| convert::system_error(&error))?;
    if let Some(path) = mirrors {
        system.mirrors = mirrors_of(path)?;
    }
    let repositories = system.package_repositories.iter();
    let mut paths = repositories.map(|path| directory.join(path));
    if let Some(path) = paths.find(|path| !path.join("packages").is_dir()) {
        let error = CommandError::new(exit_codes::BAD_INPUT, NoPackages { path });
        let hint = "repos.yaml of the system names directories that hold `packages`";
        return Err(error.hinted(hint.to_owned()));
    }
    Ok(system)
}

/// Replaces the variables in the paths of mirrors.
pub(super) fn expand(setup: &Setup, mirrors: Mirrors) -> CommandResult<Mirrors> {
    let value = |name: &str| {
        let value = setup.calling.get(OsStr::new(name))?;
        value.to_str().map(str::to_owned)
    };
    mirrors
        .expanded(&value)
        .map_err(|error| CommandError::new(exit_codes::BAD_INPUT, error))
}

fn mirrors_of(path: &Path) -> CommandResult<Mirrors> {
    let text = Text::read_needed(path.to_owned())?;
    parse_mirrors(&text.as_file()).map_err(|error| convert::system_error(&error))
}

/// Says what Spack would be handed, with everything where it is in the image.
pub(super) fn plan(
    directory: &Path,
    recipe: &StackRecipe,
    system: &SystemConfig,
) -> CommandResult<SpackStack> {
    let own = OwnPackages {
        recipe: directory.join("repo/packages").is_dir(),
        system: !system.package_repositories.is_empty(),
    };
    let places = Places::in_image(recipe, Path::new("/cabane/config"), own);
    lower(recipe, system, &places).map_err(|error| {
        let hint = error.hint();
        CommandError::new(exit_codes::BAD_INPUT, error).hinted(hint)
    })
}
