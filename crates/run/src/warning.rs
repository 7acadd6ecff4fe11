// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the user should know although the command is started.

use std::env::consts::ARCH;
use std::fmt;
use std::path::PathBuf;

use cabane_label::escape;

/// Something that is allowed and may surprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWarning {
    /// A view set `PYTHONHOME`, which would break the user's virtual environment.
    PythonHome {
        /// The virtual environment.
        venv: PathBuf,
    },
    /// What is in an image was linked with a newer C library than this system has.
    OldLibrary {
        /// The name of the image.
        image: String,
        /// The version that it needs.
        needed: String,
        /// The version of this system.
        found: String,
    },
    /// The label of an image names another architecture, and nothing is known of its programs.
    OtherArchitecture {
        /// The name of the image.
        image: String,
        /// The architecture.
        architecture: String,
    },
    /// What is in an image was compiled for another processor.
    OtherProcessor {
        /// The name of the image.
        image: String,
        /// What it was compiled for.
        targets: Vec<String>,
        /// What the processor of this machine cannot do.
        missing: Vec<String>,
    },
    /// Programs in an image are linked with libraries that this system does not have.
    NoLibrary {
        /// The name of the image.
        image: String,
        /// The libraries, or versions of their symbols.
        missing: Vec<String>,
    },
    /// The environment file gives a new value to a list that views add to.
    ListReplaced {
        /// The variable.
        variable: String,
    },
    /// The command cannot start where its caller is.
    Elsewhere {
        /// Where that is, unless it is gone altogether.
        path: Option<PathBuf>,
    },
    /// Ranks of one node live in user namespaces of their own.
    RanksApart,
}

impl RunWarning {
    /// Returns what can be typed to learn more.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoLibrary { image, .. } => {
                Some(format!("`cabane doctor {}` shows which files need it", escape(image)))
            }
            _ => None,
        }
    }
}

/// Names the first of several things, and counts the others.
fn shortened(names: &[String]) -> String {
    const NAMED: usize = 4;
    let more = names.len().saturating_sub(NAMED);
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match more {
        0 => first.join(", "),
        _ => format!("{}, and {more} more", first.join(", ")),
    }
}

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PythonHome { venv } => write!(
                f,
                "a view sets PYTHONHOME; it is left out, as your virtual environment {} could \
                 not start its Python",
                escape(&venv.to_string_lossy())
            ),
            Self::Elsewhere { path: Some(path) } => write!(
                f,
                "the directory {} cannot be entered in the environment: the command starts in /",
                escape(&path.to_string_lossy())
            ),
            Self::Elsewhere { path: None } => {
                write!(f, "the working directory does not exist any more: the command starts in /")
            }
            Self::RanksApart => write!(
                f,
                "each rank of this node gets a user namespace of its own, and none can read the \
                 memory of another: libraries of MPI then end at the start, hang on large \
                 messages or are slow. Leave out `--no-join` and CABANE_JOIN=no"
            ),
            Self::OldLibrary { image, needed, found } => write!(
                f,
                "the image {} needs glibc {}, and this system has {found}: programs that use what \
                 is new in it will not start",
                escape(image),
                escape(needed)
            ),
            Self::OtherArchitecture { image, architecture } => write!(
                f,
                "the image {} is for {}, by its label, and this machine is {ARCH}: its programs may not \
                 start",
                escape(image),
                escape(architecture)
            ),
            Self::OtherProcessor { image, targets, missing } => write!(
                f,
                "the image {} was built for {}, and this processor lacks {}: its programs may end \
                 with `illegal instruction`",
                escape(image),
                escape(&targets.join(" and ")),
                escape(&missing.join(", "))
            ),
            Self::NoLibrary { image, missing } => write!(
                f,
                "the image {} needs {}, and this system does not have that: programs that are \
                 linked with it will not start",
                escape(image),
                escape(&shortened(missing))
            ),
            Self::ListReplaced { variable } => {
                let variable = escape(variable);
                write!(
                    f,
                    "the environment file replaces {variable}, and what the views put there is \
                     lost: to add to it write `{variable} = {{ prepend = \"…\" }}`"
                )
            }
        }
    }
}
