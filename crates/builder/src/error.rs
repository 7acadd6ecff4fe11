// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a build cannot be planned or did not succeed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use cabane_label::{escape, shown};
use cabane_process::installation;
use cabane_recipe::Mistakes;
use cabane_report::{Kind, Report};

use crate::StepName;

/// A result whose error is that of a build unless another is named.
pub type Result<T, E = BuildError> = std::result::Result<T, E>;

/// A build that cannot be planned or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] Mistakes),
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
    /// A program of a step failed.
    #[error("{0}")]
    StepFailed(Box<Failure>),
    /// The caller wanted the build to stop.
    #[error("the build was interrupted")]
    Interrupted,
    /// Anything else, which is only shown.
    #[error("{0}")]
    Other(Report),
}

/// A program of a step that failed.
#[derive(Debug)]
pub struct Failure {
    /// The step.
    pub step: StepName,
    /// The package that could not be installed, if it was one.
    pub package: Option<String>,
    /// What was being done to it: `building`.
    pub phase: Option<String>,
    /// Where the recipe names the command, if it does: `config.yaml:12`.
    pub place: Option<String>,
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
            if self.step == StepName::Fetch {
                let step = self.step;
                return write!(
                    f,
                    "step `{step}` failed: sources of {package} are missing or wrong"
                );
            }
            if let Some(phase) = &self.phase {
                let phase = escape(phase);
                let step = self.step;
                return write!(f, "step `{step}` failed: {package} was not built (phase: {phase})");
            }
            return write!(f, "step `{}` failed: {package} was not built", self.step);
        }
        if let Some(place) = &self.place {
            let (command, status) = (escape(&self.command), self.status);
            return write!(f, "{place}: the command `{command}` ended with {status}");
        }
        let program = self.command.split(' ').next().unwrap_or_default();
        write!(f, "step `{}` failed: {program} ended with {}", self.step, self.status)
    }
}

impl BuildError {
    /// Makes an error that the user can do something about.
    pub fn refused(message: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        let report = Report::new(Kind::Build, message.into());
        report.hinted(hint.into().map(str::to_owned)).into()
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

    /// Makes an error of what the system answered; a full disk gets its own.
    pub(crate) fn file<E: Into<io::Error>>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| {
            let source = source.into();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Self::DiskFull { path, failure: None }
                }
                _ => {
                    let message = format!("failed to {what} {}", shown(&path));
                    Report::caused(Kind::Build, message, source).into()
                }
            }
        }
    }

    /// Says that a file of the build is gone.
    pub(crate) fn gone(path: &Path) -> Self {
        Self::file("find", path)(io::ErrorKind::NotFound)
    }

    /// Says that a program is missing.
    pub(crate) fn missing_program(program: &str) -> Self {
        Report::new(Kind::Build, format!("`{program}` is missing"))
            .hinted(installation::hint(program))
            .into()
    }

    /// Changes what is known of the program that failed.
    pub(crate) fn change_failure(&mut self, change: impl FnOnce(&mut Failure)) {
        match self {
            Self::StepFailed(failure) => change(failure),
            Self::DiskFull { failure, .. } | Self::MemoryFull { failure, .. } => {
                if let Some(failure) = failure.as_deref_mut() {
                    change(failure);
                }
            }
            _ => {}
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

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::DiskFull { .. } => "make space there, or choose another build directory or cache",
            Self::MemoryFull { .. } => {
                "the same command goes on on the disk, with `--build-dir DIR` where you say; \
                 packages that are done come from the cache"
            }
            Self::Interrupted => "run the same command to continue after the last finished step",
            Self::StepFailed(failure) => {
                return Some(format!("the whole log is in {}", shown(&failure.log)));
            }
            Self::Recipe(_) | Self::Other(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<Report> for BuildError {
    fn from(report: Report) -> Self {
        Self::Other(report)
    }
}

impl From<BuildError> for Report {
    fn from(error: BuildError) -> Self {
        let hint = error.hint();
        let tail = error.failure().map(|failure| failure.tail.clone()).unwrap_or_default();
        let report = match error {
            BuildError::Recipe(error) => return error.into(),
            BuildError::Other(report) => return report,
            error @ BuildError::Interrupted => Self::new(Kind::Interrupted, error).hinted(hint),
            error => Self::new(Kind::Build, error).hinted(hint),
        };
        if tail.is_empty() {
            return report;
        }
        let lines: Vec<_> = tail.iter().map(|line| format!("  {line}")).collect();
        report.detailed(lines.join("\n"))
    }
}
