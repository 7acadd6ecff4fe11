// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a container cannot have a device, and what its user should know.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::DeviceName;

use crate::DIRECTORIES;

/// Why a container cannot have a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is none of this name.
    #[error("there is no device `{name}` here")]
    Unknown {
        /// What was wanted.
        name: DeviceName,
        /// What there is.
        known: Vec<DeviceName>,
    },
    /// Two files of one directory describe it.
    #[error("the device `{name}` is described by {} and by {}", shown(&files[0]), shown(&files[1]))]
    Conflict {
        /// Which one.
        name: DeviceName,
        /// The files.
        files: [PathBuf; 2],
    },
    /// Something that it needs cannot be used.
    #[error("{}:{line}: cannot give {}", shown(file), shown(path))]
    Place {
        /// The specification.
        file: PathBuf,
        /// The line in it.
        line: u32,
        /// What it names.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A device node is another one than the specification says.
    #[error("{}:{line}: {} is {found}, and should be {expected}", shown(file), shown(path))]
    Node {
        /// The specification.
        file: PathBuf,
        /// The line in it.
        line: u32,
        /// The node.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
}

impl DeviceError {
    /// Returns what could be done or typed.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { known, .. } if known.is_empty() => Some(format!(
                "there are none at all: the vendor's tool writes a file into {} or {}",
                DIRECTORIES[0], DIRECTORIES[1]
            )),
            Self::Unknown { known, .. } => {
                let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("there are {}", names.join(", ")))
            }
            Self::Conflict { .. } => Some("an administrator removes one of the files".to_owned()),
            Self::Place { .. } | Self::Node { .. } => Some(
                "the file may be older than the driver: the vendor's tool writes it anew"
                    .to_owned(),
            ),
        }
    }
}

/// What the user of a device should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWarning {
    /// Nodes that this user may not open.
    NoAccess {
        /// Which ones.
        nodes: Vec<PathBuf>,
        /// What the kernel says.
        reason: String,
    },
    /// A group that the user is not in.
    NotInGroup {
        /// Its number.
        group: u32,
        /// The specification.
        file: PathBuf,
    },
    /// A program that would be run as root, and is not.
    HookLeftOut {
        /// What it is.
        hook: String,
        /// The specification.
        file: PathBuf,
        /// The line in it.
        line: u32,
    },
    /// Something else that is left out.
    LeftOut {
        /// What.
        what: String,
        /// Why.
        why: &'static str,
        /// The specification.
        file: PathBuf,
        /// The line in it.
        line: u32,
    },
    /// A specification that could not be read.
    Unreadable {
        /// What is wrong, with its place.
        text: String,
    },
}

impl fmt::Display for DeviceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |file: &Path, line: &u32| format!("{}:{line}", shown(file));
        match self {
            Self::NoAccess { nodes, reason } => {
                let nodes: Vec<_> = nodes.iter().map(|node| node.display().to_string()).collect();
                write!(f, "you cannot use {}: {reason}", nodes.join(", "))
            }
            Self::NotInGroup { group, file } => {
                write!(f, "{} wants you to be in the group {group}, and you are not", shown(file))
            }
            Self::HookLeftOut { hook, file, line } => write!(
                f,
                "{}: {} is not run: no program of a device is",
                place(file, line),
                escape(hook)
            ),
            Self::LeftOut { what, why, file, line } => {
                write!(f, "{}: {} is left out: {why}", place(file, line), escape(what))
            }
            Self::Unreadable { text } => write!(f, "devices are missing: {text}"),
        }
    }
}
