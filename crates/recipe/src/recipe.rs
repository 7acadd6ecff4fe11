// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a recipe says.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use cabane_label::{MountPoint, Name};
use cabane_view::{RecipeChecks, ViewName};
use serde::Serialize;

/// What `config.yaml` says: what is built, by which engine, and its views.
///
/// Paths are as they are written: relative ones are relative to the directory
/// of the recipe. Those of requirements and wheels stay below that directory
/// as far as their text tells; symbolic links have not been looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The name of the image.
    pub name: Name,
    /// The version of the recipe format.
    pub format: FormatVersion,
    /// Where the image is mounted (`store:`).
    pub store: MountPoint,
    /// A sentence for those who look for an image.
    pub description: Option<String>,
    /// The view that is entered when none is requested. For the engines
    /// `python`, `easybuild`, `tree`, and `container` it is one of `views`, or `default`, which always
    /// exists; the views of a Spack recipe are in another file.
    pub default_view: Option<ViewName>,
    /// Who builds it, and from what.
    pub engine: EngineConfig,
    /// What the recipe says about views; empty for Spack recipes.
    pub views: BTreeMap<ViewName, ViewRecipe>,
    /// What tells whether the image works.
    pub checks: RecipeChecks,
    /// Whether the image has no debug symbols, so that they can be in an image of their own
    /// (`debug-symbols: separate`).
    pub separates_debug_symbols: bool,
}

/// The version of the recipe format (`version:`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FormatVersion {
    /// For Spack before 1.0, and what a Spack recipe without a version has.
    V1 = 1,
    /// For Spack 1.0 and 1.1.
    V2 = 2,
    /// For Spack 1.2 and later, and for the other engines.
    V3 = 3,
}

impl FormatVersion {
    /// Returns the number that is in recipes.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The engine that builds the image, and its section of the recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// Python packages, from requirements or from a project.
    Python(PythonConfig),
    /// A directory that is there already.
    Tree(TreeConfig),
    /// Spack; the other files of the recipe say what is built.
    Spack(SpackConfig),
    /// A container image, and what is put on it.
    Container(ContainerConfig),
    /// Packages that EasyBuild builds.
    EasyBuild(EasyBuildConfig),
}

impl EngineConfig {
    /// Returns the word for it in a recipe.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Python(_) => "python",
            Self::Tree(_) => "tree",
            Self::Spack(_) => "spack",
            Self::Container(_) => "container",
            Self::EasyBuild(_) => "easybuild",
        }
    }
}

/// The section `spack:`, and what else a recipe for Spack says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpackConfig {
    /// Where Spack comes from.
    pub source: GitSource,
    /// Where packages come from; the first that has a package is used. None
    /// are given in recipes that are older than package repositories.
    pub package_repositories: Vec<PackageRepository>,
    /// What is removed after the build.
    pub cleanup: Cleanup,
    /// Whether there are module files, where `config.yaml` says so.
    pub modules: Option<bool>,
    /// The image on which it is built: a label, an ID, or a digest, as it is typed to enter it.
    pub base: Option<String>,
}

/// A Git repository, at a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GitSource {
    /// Its address, or the path of a clone.
    pub repo: String,
    /// A branch, a tag or a commit; none for what the repository has by default.
    pub commit: Option<String>,
}

/// A package repository of Spack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageRepository {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: GitSource,
    /// Where in there it lies.
    pub path: String,
}

/// What is removed when all packages have been built (`cleanup:`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleanup {
    /// Nothing.
    #[default]
    None,
    /// What is needed neither to run nor to build what is there.
    Build,
    /// What is not needed to run.
    Runtime,
}

impl Cleanup {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Build => "build",
            Self::Runtime => "runtime",
        }
    }
}

/// The section `python:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonConfig {
    /// Which Python the environment is made for.
    pub interpreter: InterpreterRequest,
    /// What is installed.
    pub source: PythonSource,
    /// Wheels that are installed as well, relative to the recipe.
    pub wheels: Vec<PathBuf>,
    /// Whether modules are compiled when the image is built.
    pub bytecode: bool,
}

/// Which Python is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterpreterRequest {
    /// Any that can be found.
    Any,
    /// One of this version: `3`, `3.11`, or `3.11.2`.
    Version(String),
    /// The one at this absolute path.
    Path(PathBuf),
}

/// What a Python environment is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PythonSource {
    /// A requirements file inside of the recipe.
    Requirements(PathBuf),
    /// The directory of a project, relative to the recipe or absolute.
    Project(PathBuf),
}

/// The section `tree:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// The directory that becomes the image, relative to the recipe or absolute.
    pub source: PathBuf,
    /// Where it was installed, if its module files name another path than the mount point
    /// (`relocate: {from: …}`).
    pub installed_at: Option<MountPoint>,
}

/// The section `easybuild:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EasyBuildConfig {
    /// The version of EasyBuild: `5.4.1`.
    pub version: String,
    /// What is built: files of the recipe, and names of easyconfigs that come with EasyBuild. There is at
    /// least one.
    pub easyconfigs: Vec<PathBuf>,
    /// Directories with sources, relative to the recipe or absolute.
    pub sources: Vec<PathBuf>,
    /// A file of the recipe with the packages of this EasyBuild and their hashes.
    pub requirements: Option<PathBuf>,
    /// For which processors compilers make code, as `eb --optarch` takes it.
    pub optimization: String,
    /// Easyblocks of the recipe: files, and directories with files.
    pub easyblocks: Vec<NamedPath>,
    /// The file of the recipe with hooks.
    pub hooks: Option<NamedPath>,
}

/// A path in the recipe, and where it is written, so that an error can show the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// The path, relative to the recipe.
    pub path: PathBuf,
    /// The bytes of `config.yaml` that name it.
    pub place: Range<usize>,
}

/// A command that is run in an image while it is built (`run:`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCommand {
    /// What is run.
    pub command: CommandLine,
    /// Whether it may use the network.
    pub network: bool,
    /// The line of the recipe in which it begins, counted from 1.
    pub line: u32,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CommandLine {
    /// A text, for a shell.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// The section `container:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerConfig {
    /// The container image, as it is named for `cabane import`, with paths relative to the
    /// recipe; or `image:` and the label of a root image.
    pub from: String,
    /// For which platform; that of the system that builds if none is named.
    pub platform: Option<String>,
    /// Images that are put on it, each at the place where it is mounted.
    pub images: Vec<String>,
    /// What is put on it: a place in the image, and a file or directory of the recipe.
    pub files: Vec<(String, PathBuf)>,
    /// What is run in it while it is built, in this order.
    pub run: Vec<RunCommand>,
    /// What it starts, in the place of what the container image says.
    pub entrypoint: Option<Vec<String>>,
    /// Its arguments, in the same way.
    pub command: Option<Vec<String>>,
    /// The directory in which it starts, in the same way.
    pub working_directory: Option<String>,
}

/// What a recipe says about one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewRecipe {
    /// A sentence about it.
    pub description: Option<String>,
    /// The modules that it loads; only for the engines `easybuild` and `tree`.
    pub modules: Option<ModuleView>,
    /// Variables it changes, besides those that the engine sets.
    pub env_vars: EnvVars,
}

/// A view that does what `module load` would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleView {
    /// What is loaded, in this order: `GROMACS/2024.1`. There is at least one.
    pub load: Vec<String>,
    /// Where module files are, relative to the tree (`modulepath:`). There is at least one.
    pub path: Vec<PathBuf>,
}

/// Changes to environment variables, each list in the order of the recipe.
///
/// `$@mount@`, `$@view_path@`, and `$@view_name@` in the values are for the
/// build to replace, `${@NAME@}` for the start of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvVars {
    /// Variables to set; without a value, to unset.
    pub set: Vec<(String, Option<String>)>,
    /// Paths to put before the others of a list.
    pub prepend_path: Vec<(String, String)>,
    /// Paths to put behind the others of a list.
    pub append_path: Vec<(String, String)>,
}
