// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the user should know although the command is started.

use std::fmt;
use std::path::PathBuf;

use cabane_label::escape;

/// Something that is allowed and may surprise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunWarning {
    /// A view set `PYTHONHOME`, which would break the user's virtual environment.
    PythonHome {
        /// The virtual environment.
        venv: PathBuf,
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
            Self::Elsewhere { path: None } => write!(
                f,
                "the working directory does not exist any more: the command starts in /"
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
