// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a build cannot be planned or did not succeed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use cabane_label::{escape, shown};
use cabane_recipe::{RecipeError, UnknownVariable};
use cabane_report::{Kind, Report};
use cabane_spack::LowerError;
use cabane_view::MetaError;

use crate::StepName;
use crate::pack_error::PackError;

/// A build that cannot be planned or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The user can change it.
    #[error("{message}")]
    Refused {
        /// What is wrong, with all its causes.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The configuration of the system is wrong.
    #[error(transparent)]
    System(RecipeError),
    /// A path of a mirror names a variable that is not set.
    #[error(transparent)]
    Mirror(#[from] UnknownVariable),
    /// The recipe does not fit the system.
    #[error(transparent)]
    Lower(#[from] LowerError),
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
    /// The build has no step of that name, or leaves it out.
    #[error("there is no step `{}` in this build", escape(name))]
    NoStep {
        /// What was requested.
        name: String,
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
    /// A program of a step failed.
    #[error("{0}")]
    StepFailed(Box<Failure>),
    /// The tree cannot be packed without loss, or was not.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Layers cannot be made an image.
    #[error(transparent)]
    Container(Box<cabane_container::Error>),
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
    /// Makes an error that the user can do something about.
    pub fn refused(message: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        Self::Refused { message: message.into(), hint: hint.into().map(str::to_owned) }
    }

    /// Says that there is no recipe in a directory.
    pub(crate) fn no_recipe(directory: &Path) -> Self {
        Self::refused(
            format!("{} holds no config.yaml", shown(directory)),
            "a recipe is a directory with config.yaml; `cabane build --help` shows examples",
        )
    }

    /// Says that Spack builds for a system, and none was named.
    pub fn no_system() -> Self {
        Self::refused(
            "a recipe for Spack needs a system",
            "name it, or the directory of its configuration: `--system SYSTEM`; `cabane system \
             probe --output DIR` writes one for this machine",
        )
    }

    /// Says that an engine cannot be used.
    pub(crate) fn unknown_engine(engine: &str) -> Self {
        Self::refused(
            format!("the engine `{engine}` is not there yet"),
            "write `engine: python` or `engine: tree` in config.yaml",
        )
    }

    /// Replaces the hint.
    #[must_use]
    pub(crate) fn hinted(self, hint: String) -> Self {
        match self {
            Self::Refused { message, .. } => Self::Refused { message, hint: Some(hint) },
            other => other,
        }
    }

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
            Self::Container(error) => error.hint(),
            Self::MissingProgram { program } | Self::OldProgram { program, .. } => {
                installation(program)
            }
            Self::StepsCrossed { from, .. } => Some(format!("`--until {from}`, or a later one")),
            Self::NoStep { steps, .. } => {
                let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
                Some(format!("its steps are {}", steps.join(", ")))
            }
            Self::DiskFull { .. } => {
                Some("make space there, or choose another build directory or cache".to_owned())
            }
            Self::MemoryFull { .. } => Some(
                "the same command goes on on the disk, with `--build-dir DIR` where you say; \
                 packages that are done come from the cache"
                    .to_owned(),
            ),
            Self::Refused { hint, .. } => hint.clone(),
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
