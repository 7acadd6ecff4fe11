// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a program does not get another MPI.

use cabane_label::escape;
use cabane_report::{Kind, Report};
use serde::{Deserialize, Serialize};

/// Why a program does not get another MPI. It can be sent from one process to another.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum SwapError {
    /// The name of the substitute means nothing.
    #[error("there is no MPI `{}` in the configuration, and no such file or image", escape(name))]
    Unknown {
        /// The name.
        name: String,
        /// The names in the configuration.
        known: Vec<String>,
    },
    /// No installed MPI has the family of the program.
    #[error("no MPI of this machine is of the family of the program")]
    NothingHere,
    /// A launcher is followed by no program.
    #[error(
        "`{}` has no program to start: none of its arguments is one: {}",
        escape(launcher),
        escape(arguments)
    )]
    NothingBehind {
        /// The launcher.
        launcher: String,
        /// Its arguments.
        arguments: String,
    },
    /// The command does not exist.
    #[error("there is no program `{}` here", escape(.0))]
    NoProgram(String),
}

impl From<SwapError> for Report {
    fn from(error: SwapError) -> Self {
        let hint = |text: &str| Some(text.to_owned());
        let (kind, hint) = match &error {
            SwapError::Unknown { known, .. } => {
                let known = (!known.is_empty()).then(|| format!("there are {}", known.join(", ")));
                (Kind::NotFound, known)
            }
            SwapError::NothingHere => {
                let text = "name a prefix with `--with`, or in the configuration";
                (Kind::NotFound, hint(text))
            }
            SwapError::NothingBehind { .. } => {
                let text = "write the path of the program, if it is not in `PATH`";
                (Kind::CommandNotFound, hint(text))
            }
            SwapError::NoProgram(_) => (Kind::CommandNotFound, None),
        };
        Report::new(kind, error).hinted(hint)
    }
}
