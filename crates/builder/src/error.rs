// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a build cannot be planned or did not succeed.

use cabane_report::{Kind, Report};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use cabane_label::{MountPoint, escape};
use cabane_recipe::{RecipeError, UnknownVariable};
use cabane_spack::LowerError;
use cabane_view::MetaError;

use crate::pack::PackError;
use crate::{FoundInterpreter, InTheWay, StepName};

/// A build that cannot be planned or did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// There is no recipe.
    #[error("{} holds no config.yaml", shown(path))]
    NoRecipe {
        /// The directory.
        path: PathBuf,
    },
    /// The configuration of the system is wrong.
    #[error(transparent)]
    System(RecipeError),
    /// A file of the system that must be there is not.
    #[error("there is no {}", shown(path))]
    NoSystemFile {
        /// The file.
        path: PathBuf,
    },
    /// The file of mirrors that was named is not there.
    #[error("there is no {}", shown(path))]
    NoMirrors {
        /// The file.
        path: PathBuf,
    },
    /// A directory that the system names holds no packages.
    #[error("{} is not a package repository", shown(path))]
    NoPackageRepository {
        /// The directory.
        path: PathBuf,
    },
    /// A path of a mirror names a variable that is not set.
    #[error(transparent)]
    Mirror(#[from] UnknownVariable),
    /// The recipe does not fit the system.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The engine exists in recipes only.
    #[error("the engine `{engine}` is not there yet")]
    UnknownEngine {
        /// The engine.
        engine: &'static str,
    },
    /// A file that the recipe names does not exist.
    #[error("the recipe names {}, which is not {expected}", shown(path))]
    NotThere {
        /// The file.
        path: PathBuf,
        /// What should be there, with an article.
        expected: &'static str,
    },
    /// A file that the recipe names lies outside of its directory.
    #[error("{} lies outside of the recipe", shown(path))]
    OutsideRecipe {
        /// The file.
        path: PathBuf,
    },
    /// The recipe's files do not fit into the metadata.
    #[error(
        "the files in {}, which travel in the metadata, have more than {} MiB",
        shown(path),
        limit >> 20
    )]
    RecipeTooLarge {
        /// The directory.
        path: PathBuf,
        /// The largest size in bytes.
        limit: u64,
    },
    /// The mount point hides something that the build needs.
    #[error("an image cannot be built for {store}: the build needs {}", shown(path))]
    StoreInTheWay {
        /// The mount point.
        store: MountPoint,
        /// What it would hide, or what it lies in.
        path: PathBuf,
    },
    /// The tree was made for another mount point.
    #[error("the tree in {} was made for {made_for}, not for {store}", shown(tree))]
    OtherMountPoint {
        /// The tree.
        tree: PathBuf,
        /// What its metadata says.
        made_for: MountPoint,
        /// What the recipe says.
        store: MountPoint,
    },
    /// Something in the tree has the place of the metadata.
    #[error("{} must be a directory: it is where the metadata goes", shown(path))]
    MetaInTheWay {
        /// What is there.
        path: PathBuf,
    },
    /// The build directory lies in the tree that is to be packed.
    #[error("the build directory {} lies in the tree {}", shown(build_dir), shown(tree))]
    BuildInTree {
        /// The build directory.
        build_dir: PathBuf,
        /// The tree.
        tree: PathBuf,
    },
    /// The metadata of the tree cannot be used.
    #[error("cannot use {}", shown(path))]
    Meta {
        /// The file.
        path: PathBuf,
        /// Why.
        source: MetaError,
    },
    /// A program is missing.
    #[error("`{program}` is missing")]
    MissingProgram {
        /// The program.
        program: &'static str,
    },
    /// A program is older than what the build relies on.
    #[error("{} has version {found}, and at least {needed} is needed", shown(path))]
    OldProgram {
        /// Its name.
        program: &'static str,
        /// The program.
        path: PathBuf,
        /// The version it has.
        found: String,
        /// The version it must have.
        needed: &'static str,
    },
    /// A program does not answer as it should.
    #[error("cannot ask {} for its version: {}", shown(path), escape(answer))]
    StrangeProgram {
        /// The program.
        path: PathBuf,
        /// What it said instead.
        answer: String,
    },
    /// No interpreter fits.
    #[error("no Python {wanted} was found{}", interpreters(found))]
    NoInterpreter {
        /// What was looked for: `3.11`, `3.8 or later`.
        wanted: String,
        /// Where.
        searched: Vec<PathBuf>,
        /// What was found there.
        found: Vec<FoundInterpreter>,
    },
    /// A file or directory of the build cannot be used.
    #[error("failed to {what} {}", shown(path))]
    File {
        /// What was being done, fit to stand after "failed to".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The disk is full.
    #[error("no space is left for {}", shown(path))]
    DiskFull {
        /// The directory in which something was being written.
        path: PathBuf,
        /// The step that failed, if a program ran.
        failure: Option<Box<Failure>>,
    },
    /// The build was in memory, and that is full.
    #[error("the build does not fit into memory: no space is left in {}", shown(path))]
    MemoryFull {
        /// Where it was.
        path: PathBuf,
        /// The step that failed, if a program ran.
        failure: Option<Box<Failure>>,
    },
    /// Something is where a tree should go.
    #[error("cannot install into {}: {}", shown(path), in_the_way(*why))]
    InstallInTheWay {
        /// The directory.
        path: PathBuf,
        /// What is there.
        why: InTheWay,
    },
    /// A key of a mirror is not there.
    #[error("the `{name}` of the mirror `{}` is {}", escape(mirror), no_key(path.as_deref()))]
    NoKey {
        /// The mirror.
        mirror: String,
        /// How it is called in `mirrors.yaml`.
        name: &'static str,
        /// The file that it was looked for in, unless that might be a secret.
        path: Option<PathBuf>,
    },
    /// A directory that should be a Git repository is none.
    #[error("cannot read the Git repository {}: {}", shown(path), escape(answer))]
    NoRepository {
        /// The directory.
        path: PathBuf,
        /// What Git said.
        answer: String,
    },
    /// A Git repository does not have what the recipe names.
    #[error("{} has no commit, tag or branch `{}`", escape(address), escape(reference))]
    NoCommit {
        /// The address of the repository.
        address: String,
        /// What was looked for.
        reference: String,
    },
    /// An archive is not the one that the recipe names.
    #[error(
        "{} is another archive than the recipe names: its sha256 is {found}, not {wanted}",
        cabane_label::escape(address)
    )]
    OtherArchive {
        /// Where it comes from.
        address: String,
        /// What the recipe says.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// A script of the recipe wants something filled in that is not known.
    #[error("{}:{line}: there is no `{}` to be filled in", shown(path), escape(said))]
    NoPlaceholder {
        /// The script.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// What stands between the braces.
        said: String,
    },
    /// The build has no step of that name, or leaves it out.
    #[error("there is no step `{}` in this build", escape(said))]
    NoStep {
        /// What was asked for.
        said: String,
        /// The steps that there are.
        steps: Vec<StepName>,
    },
    /// The build is to begin after the step where it is to stop.
    #[error("`{from}` comes after `{until}`, where the build is to stop")]
    StepsCrossed {
        /// Where it is to begin.
        from: StepName,
        /// Where it is to stop.
        until: StepName,
    },
    /// Spack builds for a system, and none was named.
    #[error("a recipe for Spack needs a system")]
    NoSystem,
    /// The sandbox cannot be made.
    #[error("cannot make the sandbox: {message}")]
    Sandbox {
        /// What went wrong, with all its causes.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A program of a step failed.
    #[error("{0}")]
    StepFailed(Box<Failure>),
    /// The tree cannot be packed without loss, or was not.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Layers cannot be made an image.
    #[error(transparent)]
    Container(Box<cabane_container::Error>),
    /// A container image is not there, or cannot be got.
    #[error("{message}")]
    ContainerSource {
        /// What went wrong, with all its causes.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The container image has a C library that is too old for what is put on it.
    #[error("`{}` needs the GNU C library {needed}, and the container image has {found}", escape(.image))]
    OldLibrary {
        /// What is put on it.
        image: String,
        /// The version that it needs.
        needed: String,
        /// The version that is there.
        found: String,
    },
    /// Something that makes no sense for a root image.
    #[error("an image with a root file system cannot be installed in a directory")]
    NotForContainers,
    /// The caller wanted the build to stop.
    #[error("the build was interrupted")]
    Interrupted,
}

/// A program of a step that failed.
#[derive(Debug)]
pub struct Failure {
    /// The step.
    pub step: StepName,
    /// The package that could not be installed, if it was one.
    pub package: Option<String>,
    /// The command, as it could be typed.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote, or that the package wrote.
    pub log: PathBuf,
    /// The last lines of it, safe to show.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(package) = &self.package {
            let package = escape(package);
            return write!(f, "step `{}` failed: {package} was not built", self.step);
        }
        let program = self.command.split(' ').next().unwrap_or_default();
        write!(f, "step `{}` failed: {program} ended with {}", self.step, self.status)
    }
}

impl BuildError {
    /// Makes an error of what the system answered; a full disk gets its own.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, failure: None }
            }
            _ => Self::File { what, path, source },
        }
    }

    /// Returns what the program that failed left behind: its log and the end of it.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::StepFailed(failure) => Some(failure),
            Self::DiskFull { failure, .. } | Self::MemoryFull { failure, .. } => failure.as_deref(),
            _ => None,
        }
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownEngine { .. } => {
                Some("write `engine: python` or `engine: tree` in config.yaml".to_owned())
            }
            Self::Container(error) => error.hint(),
            Self::NotForContainers => Some("leave `--install` out".to_owned()),
            Self::OutsideRecipe { .. } => {
                Some("copy the file into the directory of the recipe".to_owned())
            }
            Self::RecipeTooLarge { .. } => Some(
                "keep data elsewhere; names in a recipe that start with `.` are left out"
                    .to_owned(),
            ),
            Self::StoreInTheWay { .. } => {
                Some("take another mount point, for example `store: /user-environment`".to_owned())
            }
            Self::OtherMountPoint { made_for, .. } => {
                Some(format!("write `store: {made_for}` in config.yaml"))
            }
            Self::MissingProgram { program } | Self::OldProgram { program, .. } => {
                installation(program)
            }
            Self::NoInterpreter { searched, .. } => Some(format!(
                "it was looked for in {}; `interpreter: /path/to/python3` in config.yaml takes \
                 one from anywhere",
                list(&searched.iter().map(|path| shown(path)).collect::<Vec<_>>())
            )),
            Self::OtherArchive { found, .. } => {
                Some(format!("if it is right, write `commit: {found}` in config.yaml"))
            }
            Self::NoPlaceholder { .. } => {
                Some("there are env.mount, env.config, env.build and env.spack".to_owned())
            }
            Self::NoSystemFile { .. } => Some(
                "a system is a directory with packages.yaml, network.yaml, repos.yaml".to_owned(),
            ),
            Self::NoMirrors { .. } => Some(
                "`--mirrors` names a file in the format of mirrors.yaml; without it, that of the \
                 system counts"
                    .to_owned(),
            ),
            Self::NoRecipe { .. } => Some(
                "a recipe is a directory with config.yaml; `cabane build --help` shows examples"
                    .to_owned(),
            ),
            Self::NoPackageRepository { .. } => {
                Some("repos.yaml of the system names directories that hold `packages`".to_owned())
            }
            Self::StepsCrossed { from, .. } => Some(format!("`--until {from}`, or a later one")),
            Self::NoStep { steps, .. } => Some(format!("its steps are {}", list(steps))),
            Self::InstallInTheWay { why, .. } => Some(match why {
                InTheWay::Installed => {
                    "`--replace` replaces it; programs that run from there may fail then".to_owned()
                }
                _ => "name a directory that does not exist".to_owned(),
            }),
            Self::NoKey { .. } => Some(
                "name a file, relative to mirrors.yaml, or write the key itself in base 64"
                    .to_owned(),
            ),
            Self::NoSystem => Some(
                "name it, or the directory of its configuration: `--system SYSTEM`; `cabane \
                 system probe --output DIR` writes one for this machine"
                    .to_owned(),
            ),
            Self::DiskFull { .. } => {
                Some("make room there, or choose another build directory or cache".to_owned())
            }
            Self::MemoryFull { .. } => Some(
                "the same command goes on on the disk, with `--build-dir DIR` where you say; \
                 packages that are done come from the cache"
                    .to_owned(),
            ),
            Self::Sandbox { hint, .. } | Self::ContainerSource { hint, .. } => hint.clone(),
            Self::Interrupted => {
                Some("the same command goes on after the last finished step".to_owned())
            }
            Self::StepFailed(failure) => {
                Some(format!("the whole log is in {}", shown(&failure.log)))
            }
            Self::Pack(error) => error.hint(),
            Self::Lower(error) => error.hint(),
            _ => None,
        }
    }
}

fn installation(program: &str) -> Option<String> {
    let package = match program {
        "uv" => {
            return Some(
                "install it, for example with `pipx install uv` or `pip install --user uv`"
                    .to_owned(),
            );
        }
        "mksquashfs" => "squashfs-tools",
        "mkfs.erofs" => "erofs-utils",
        "git" => "git",
        "gpg" => "gnupg",
        _ => return None,
    };
    Some(format!("install it, for example with `sudo apt-get install {package}`"))
}

fn in_the_way(why: InTheWay) -> &'static str {
    match why {
        InTheWay::NoDirectory => "it is no directory",
        InTheWay::Foreign => "it holds something that no build has put there",
        InTheWay::Installed => "it holds what an earlier build has put there",
        InTheWay::Build => "it is where the build itself works",
    }
}

fn no_key(path: Option<&Path>) -> String {
    let missing = |path| format!("not there: {}", shown(path));
    path.map_or_else(|| "no key".to_owned(), missing)
}

/// A path as it may be shown.
pub(crate) fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

fn interpreters(found: &[FoundInterpreter]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let found: Vec<_> = found
        .iter()
        .map(|one| format!("{} is {}", shown(&one.path), escape(&one.version)))
        .collect();
    format!(", only others: {}", found.join(", "))
}

impl From<BuildError> for Report {
    fn from(error: BuildError) -> Self {
        let hint = error.hint();
        let tail = error.failure().map(|failure| failure.tail.clone());
        let error = match error {
            BuildError::Recipe(error) => return error.into(),
            BuildError::System(error) => {
                return cabane_recipe::malformed(
                    "the configuration of the system",
                    error.diagnostics(),
                );
            }
            error => error,
        };
        let kind = match &error {
            BuildError::NoStep { .. } | BuildError::StepsCrossed { .. } => Kind::Usage,
            _ => Kind::Build,
        };
        let report = Self::new(kind, error).hinted(hint);
        match tail.filter(|tail| !tail.is_empty()) {
            Some(tail) => {
                let lines: Vec<_> = tail.iter().map(|line| format!("  {line}")).collect();
                report.detailed(lines.join("\n"))
            }
            None => report,
        }
    }
}
