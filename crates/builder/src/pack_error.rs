// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a tree cannot become an image, or did not become a whole one.

use std::path::PathBuf;

use cabane_label::{escape, shown};

/// A tree that cannot be packed, or an image that is not whole.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Files that the user may not read would be missing.
    #[error("{} cannot be read: {}", many(*count, "file or directory", "files or directories"), paths(first))]
    Unreadable {
        /// How many there are.
        count: usize,
        /// The first of them.
        first: Vec<PathBuf>,
        /// The tree.
        tree: PathBuf,
    },
    /// Sockets, pipes and devices have no place in an image.
    #[error("{} cannot be packed: {}", many(*count, "special file", "special files"), kinds(first))]
    Special {
        /// How many there are.
        count: usize,
        /// The first of them, with what they are.
        first: Vec<(PathBuf, &'static str)>,
    },
    /// Files that only their owner may read, where the format keeps that.
    #[error("{} in the image could not be read by everybody: {}", many(*count, "file", "files"), paths(first))]
    Private {
        /// How many there are.
        count: usize,
        /// The first of them.
        first: Vec<PathBuf>,
        /// The tree.
        tree: PathBuf,
    },
    /// A file changed or vanished while it was looked at.
    #[error("{} changed while the tree was being packed", shown(path))]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The program was not content, although it said that it succeeded.
    #[error("the image is not whole: {}", escape(first))]
    Complaint {
        /// The first thing it wrote.
        first: String,
        /// All it wrote.
        log: PathBuf,
    },
    /// The image does not hold as many files as the tree.
    #[error("the image is not whole: it holds {packed} files and directories, the tree {counted}")]
    Lost {
        /// How many the tree has.
        counted: u64,
        /// How many the image has.
        packed: u64,
    },
    /// What was written is not an image.
    #[error("{} did not become an image", shown(path))]
    NotAnImage {
        /// What was written.
        path: PathBuf,
    },
}

impl PackError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { tree, .. } => Some(format!("try `chmod -R u+rX {}`", shown(tree))),
            Self::Private { tree, .. } => Some(format!(
                "try `chmod -R a+rX {}`, or build a squashfs image, in which everybody may read",
                shown(tree)
            )),
            Self::Special { .. } => Some("remove them from the tree".to_owned()),
            Self::Changed { .. } | Self::Lost { .. } => {
                Some("build again while no process changes the tree".to_owned())
            }
            Self::Complaint { log, .. } => Some(format!("the whole log is in {}", shown(log))),
            Self::NotAnImage { .. } => None,
        }
    }
}

fn many(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn paths(first: &[PathBuf]) -> String {
    let first: Vec<_> = first.iter().map(|path| shown(path)).collect();
    first.join(", ")
}

fn kinds(first: &[(PathBuf, &'static str)]) -> String {
    let first: Vec<_> =
        first.iter().map(|(path, kind)| format!("{} ({kind})", shown(path))).collect();
    first.join(", ")
}
