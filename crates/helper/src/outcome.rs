// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How it ended: one error on standard error, and an exit code.
//!
//! Form and codes are those of `cabane run`, which has become this program by then.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) const NOT_STARTED: i32 = 125;
const NOT_EXECUTABLE: i32 = 126;
const COMMAND_NOT_FOUND: i32 = 127;

/// Why there is no command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Called by hand, or by something else than Cabane.
    Usage,
    /// The request is not understood, or a descriptor it names is not there.
    Request(io::Error),
    /// A process does not exist, or the caller may not look into it: one answer.
    Process,
    /// The program has no rights to use.
    NotPrivileged,
    /// Rights or limits could not be changed.
    System(io::Error),
    /// The rights could not be given up. It is not reported: a message goes where the caller
    /// likes, who could let a process with rights wait there.
    Rights,
    /// Something is not allowed, or a step of mounting failed.
    Mount(cabane_privileged::Error),
    /// The directory in which the command must start cannot be entered.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The command could not be started.
    Command {
        /// What was to be started.
        program: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

impl From<cabane_privileged::Error> for Failure {
    fn from(error: cabane_privileged::Error) -> Self {
        Self::Mount(error)
    }
}

impl Failure {
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                COMMAND_NOT_FOUND
            }
            Self::Command { .. } => NOT_EXECUTABLE,
            _ => NOT_STARTED,
        }
    }

    fn cause(&self) -> Option<String> {
        match self {
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => None,
            Self::Request(source)
            | Self::System(source)
            | Self::Directory { source, .. }
            | Self::Command { source, .. } => Some(source.to_string()),
            Self::Mount(error) => std::error::Error::source(error).map(ToString::to_string),
            Self::Usage | Self::Process | Self::NotPrivileged | Self::Rights => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Mount(error) => error.hint(),
            Self::Usage => Some("`cabane run IMAGE -- COMMAND` calls it as it must be".into()),
            Self::NotPrivileged => Some(
                "`cabane doctor` shows what is wrong with its installation; without it, \
                 use `--backend user-namespace`"
                    .into(),
            ),
            Self::Directory { .. } => Some(
                "it must exist inside the environment: see `workdir` of the environment file"
                    .into(),
            ),
            Self::Command { source, program }
                if source.kind() == io::ErrorKind::NotFound && program.components().count() > 1 =>
            {
                Some("the file is missing, or the interpreter that its first line names is".into())
            }
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "see which views the image has with `cabane image inspect`, and choose one \
                 with `--view`; a container has only what is in its image"
                    .into(),
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => write!(f, "cabane-mount is not meant to be called by hand"),
            Self::Request(_) => write!(f, "cabane-mount does not understand the request"),
            Self::Process => write!(f, "there is no such process of yours"),
            Self::NotPrivileged => write!(f, "cabane-mount has no rights to mount"),
            Self::System(_) | Self::Rights => {
                write!(f, "cabane-mount cannot change its rights or limits")
            }
            Self::Mount(error) => write!(f, "{error}"),
            Self::Directory { path, .. } => {
                write!(f, "cannot start in the directory {}", path.display())
            }
            Self::Command { program, source } if source.kind() == io::ErrorKind::NotFound => {
                write!(f, "there is no command `{}`", program.display())
            }
            Self::Command { program, .. } => write!(f, "cannot start `{}`", program.display()),
        }
    }
}

/// Returns an error as text; names in it come from the caller and may hold anything. It is
/// empty where nothing may be shown.
pub(crate) fn message(failure: &Failure) -> String {
    if matches!(failure, Failure::Rights) {
        return String::new();
    }
    let mut text = format!("error: {}\n", plain(&failure.to_string()));
    for (kind, line) in [("cause", failure.cause()), ("hint", failure.hint())] {
        if let Some(line) = line {
            text = format!("{text}{kind}: {}\n", plain(&line));
        }
    }
    text
}

/// Prints an error, and returns the exit code that goes with it. Nothing is allocated.
pub(crate) fn tell(message: &str, code: i32) -> i32 {
    // There is no one left to report this to.
    let _ = io::stderr().write_all(message.as_bytes());
    code
}

/// Says that the command starts elsewhere than its caller is.
pub(crate) fn warn_of_directory(path: &Path) {
    let path = plain(&path.display().to_string());
    let _ = io::stderr().write_all(
        format!(
            "warning: the directory {path} cannot be entered in the environment: the command \
             starts in /\n"
        )
        .as_bytes(),
    );
}

fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let escaped = character.is_control().then(|| character.escape_default());
            let itself = (!character.is_control()).then_some(character);
            escaped.into_iter().flatten().chain(itself)
        })
        .collect()
}
