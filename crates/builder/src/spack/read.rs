// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading the files of a recipe and of a system from their directories.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_recipe::{
    FileText, MAX_FILE_SIZE, Mirrors, Mistakes, StackFiles, StackOptions, StackRecipe,
    SystemConfig, SystemFiles, malformed, parse_mirrors, parse_stack, parse_system,
};

use cabane_report::{Kind, Report};

use crate::{BuildError, Result, disk};

/// The text of a file, with its path.
#[derive(Debug)]
struct Text {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Text {
    /// Reads a file that need not be there.
    fn read(path: PathBuf) -> Result<Option<Self>> {
        // One byte more than is allowed tells the parser that there is too much.
        match disk::read_start(&path, MAX_FILE_SIZE + 1) {
            Ok(bytes) => Ok(Some(Self { path, bytes })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BuildError::file("read", &path)(error)),
        }
    }

    fn as_file(&self) -> FileText<'_> {
        FileText { path: &self.path, text: &self.bytes }
    }
}

/// The files of a recipe for Spack, as they are.
#[derive(Debug)]
pub struct StackTexts {
    config: Text,
    compilers: Option<Text>,
    environments: Option<Text>,
    modules: Option<Text>,
    packages: Option<Text>,
}

impl StackTexts {
    /// Reads the files of the recipe in a directory.
    ///
    /// # Errors
    ///
    /// There is no `config.yaml`, or a file cannot be read.
    pub fn read(directory: &Path) -> Result<Self> {
        let read = |name: &str| Text::read(directory.join(name));
        let no_recipe = || BuildError::no_recipe(directory);
        Ok(Self {
            config: read("config.yaml")?.ok_or_else(no_recipe)?,
            compilers: read("compilers.yaml")?,
            environments: read("environments.yaml")?,
            modules: read("modules.yaml")?,
            packages: read("packages.yaml")?,
        })
    }

    /// Returns the same recipe with another text of `environments.yaml`.
    #[must_use]
    pub fn with_environments(mut self, text: &str) -> Self {
        if let Some(environments) = &mut self.environments {
            environments.bytes = text.as_bytes().to_vec();
        }
        self
    }

    /// Returns where `config.yaml` is.
    pub(super) fn config_path(&self) -> &Path {
        self.config.as_file().path
    }

    /// Returns the files for a parser.
    #[must_use]
    pub fn files(&self) -> StackFiles<'_> {
        StackFiles {
            config: self.config.as_file(),
            compilers: self.compilers.as_ref().map(Text::as_file),
            environments: self.environments.as_ref().map(Text::as_file),
            modules: self.modules.as_ref().map(Text::as_file),
            packages: self.packages.as_ref().map(Text::as_file),
        }
    }

    /// Returns the text of one of the files.
    pub(super) fn text_of(&self, path: &Path) -> Option<&str> {
        let others = [&self.compilers, &self.environments, &self.modules, &self.packages];
        let mut all = others.into_iter().flatten().chain([&self.config]);
        let text = all.find(|text| text.path == path)?;
        std::str::from_utf8(&text.bytes).ok()
    }

    /// Says what the recipe means.
    ///
    /// # Errors
    ///
    /// Every mistake in its files.
    pub fn parse(&self, options: &StackOptions<'_>) -> Result<StackRecipe, Mistakes> {
        parse_stack(&self.files(), options)
    }
}

/// Reads the configuration of a system, with another `mirrors.yaml` if one is named.
///
/// # Errors
///
/// There is no `packages.yaml`, or not the other `mirrors.yaml`; every mistake in its files; a directory of `repos.yaml` without packages.
pub fn read_system(directory: &Path, mirrors: Option<&Path>) -> Result<SystemConfig> {
    let read = |name: &str| Text::read(directory.join(name));
    let missing =
        |path: &Path, hint| BuildError::refused(format!("there is no {}", shown(path)), hint);
    let packages = read("packages.yaml")?.ok_or_else(|| {
        let hint = "a system is a directory with packages.yaml, network.yaml, repos.yaml";
        missing(&directory.join("packages.yaml"), hint)
    })?;
    let network = read("network.yaml")?;
    let repos = read("repos.yaml")?;
    let own_mirrors = match mirrors {
        Some(_) => None,
        None => read("mirrors.yaml")?,
    };
    let (config, concretizer, toolchains) =
        (read("config.yaml")?, read("concretizer.yaml")?, read("toolchains.yaml")?);
    let files = SystemFiles {
        packages: packages.as_file(),
        network: network.as_ref().map(Text::as_file),
        repos: repos.as_ref().map(Text::as_file),
        mirrors: own_mirrors.as_ref().map(Text::as_file),
        config: config.as_ref().map(Text::as_file),
        concretizer: concretizer.as_ref().map(Text::as_file),
        toolchains: toolchains.as_ref().map(Text::as_file),
    };
    let mut system = parse_system(&files).map_err(of_system)?;
    if let Some(path) = mirrors {
        let hint = "`--mirrors` names a file in the format of mirrors.yaml; without it, that of the \
                    system counts";
        let text = Text::read(path.to_owned())?.ok_or_else(|| missing(path, hint))?;
        system.mirrors = parse_mirrors(&text.as_file()).map_err(of_system)?;
    }
    let repositories = system.package_repositories.iter();
    let mut paths = repositories.map(|path| directory.join(path));
    match paths.find(|path| !path.join("packages").is_dir()) {
        Some(path) => Err(BuildError::refused(
            format!("{} is not a package repository", shown(&path)),
            "repos.yaml of the system names directories that hold `packages`",
        )),
        None => Ok(system),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn of_system(error: Mistakes) -> Report {
    malformed("the configuration of the system", error.diagnostics())
}

/// Replaces the variables in the paths of mirrors.
pub(super) fn expand(mirrors: Mirrors, value: &dyn Fn(&str) -> Option<String>) -> Result<Mirrors> {
    Ok(mirrors.expanded(value).map_err(|error| Report::new(Kind::Build, error))?)
}
