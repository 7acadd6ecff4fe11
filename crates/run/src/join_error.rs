// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a process did not get into the namespaces of others.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// Why a process did not get into the namespaces of others.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There is no safe place in which processes could find each other.
    #[error("cannot look for the processes to share memory with{}", list(tried))]
    Directory {
        /// The directories and what is wrong with each.
        tried: Vec<(PathBuf, String)>,
    },
    /// The file in which processes find each other cannot be used.
    #[error("failed to {what} in {}", directory.display())]
    File {
        /// What was being done.
        what: &'static str,
        /// The directory of the file.
        directory: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A process does not finish what only one can do at a time.
    #[error(
        "waited {seconds} s for {} to make or enter the environment that is to be shared",
        holder.map_or("another process".to_owned(), |id| format!("process {id}"))
    )]
    Kept {
        /// For how long nothing happened.
        seconds: u64,
        /// Who it is, if that is known.
        holder: Option<u32>,
    },
    /// Those who said the same name have something else.
    #[error("the environment named `{name}` is another one: it has {images}")]
    OtherEnvironment {
        /// The name.
        name: String,
        /// What they have.
        images: String,
    },
    /// There are processes, but none lets this one in.
    #[error("cannot enter the environment of process {id}")]
    Enter {
        /// One of the processes.
        id: u32,
        /// What the system answered.
        source: io::Error,
    },
    /// What `/proc` says about this process is not known.
    #[error("cannot tell this process from others")]
    Own {
        /// What the system answered.
        source: io::Error,
    },
}

fn list(tried: &[(PathBuf, String)]) -> String {
    let mut text = String::new();
    for (position, (path, reason)) in tried.iter().enumerate() {
        let sign = if position == 0 { ':' } else { ';' };
        let _ = write!(text, "{sign} {}: {reason}", path.display());
    }
    text
}

impl JoinError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Kept { holder: Some(id), .. } => {
                return format!(
                    "if it was stopped, `kill -CONT {id}` lets it go on; `--no-join` starts \
                     anyway, but then ranks cannot read each other's memory"
                );
            }
            Self::OtherEnvironment { .. } => {
                "name the same images in the same order and start from the same place, or choose \
                 another name with `--join=NAME`"
            }
            Self::Directory { .. } => {
                "set XDG_RUNTIME_DIR to a directory of yours with mode 0700 on this node; \
                 `--no-join` starts anyway, but then ranks cannot read each other's memory"
            }
            _ => "`--no-join` starts anyway, but then ranks cannot read each other's memory",
        }
        .to_owned()
    }
}
