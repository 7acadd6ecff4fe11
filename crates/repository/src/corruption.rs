// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can be wrong in a repository, as a text, and what repairs it.

use std::fmt;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label, escape, shown};
use serde::Serialize;

/// Something in a repository that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Corruption {
    /// A label points to an image that is not there. It is not shown to users.
    MissingImage {
        /// The label.
        label: Label,
        /// The image.
        digest: Digest,
    },
    /// An image has not the size it had.
    WrongSize {
        /// The image.
        digest: Digest,
        /// Its labels.
        labels: Vec<Label>,
        /// The size it had.
        expected: u64,
        /// The size it has.
        found: u64,
    },
    /// An image has not the content it had.
    WrongDigest {
        /// The image.
        digest: Digest,
        /// Its labels.
        labels: Vec<Label>,
        /// The digest of what is there.
        found: Digest,
    },
    /// An image cannot be read.
    UnreadableImage {
        /// The image.
        digest: Digest,
        /// Its labels.
        labels: Vec<Label>,
        /// Why not.
        reason: String,
    },
    /// The metadata of an image are missing or cannot be understood.
    UnreadableMeta {
        /// The image.
        digest: Digest,
        /// Its labels.
        labels: Vec<Label>,
        /// Why not.
        reason: String,
    },
    /// An image has no label.
    NoLabel {
        /// The image.
        digest: Digest,
    },
    /// A ref cannot be understood.
    UnreadableRef {
        /// Its file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A label in the database of a repository of uenv cannot be one.
    BadLabel {
        /// What is there in place of a label.
        label: String,
        /// Why not.
        reason: String,
    },
    /// A ref whose label belongs to another image now.
    Overtaken {
        /// The label.
        label: Label,
        /// The image to which the ref points.
        digest: Digest,
    },
    /// The index is damaged, so that everything is read file by file.
    BadIndex,
    /// A pin does not say what it protects, so that nothing is removed by itself.
    UnreadablePin {
        /// Its path in the repository.
        path: PathBuf,
    },
    /// The names that follow a channel cannot be read.
    UnreadableChannel {
        /// The path of their file in the repository.
        path: PathBuf,
    },
    /// Something a killed writer has left, which the next writer removes.
    Leftover {
        /// Its name in the directory `tmp`.
        name: String,
    },
    /// A file that does not belong there.
    Stranger {
        /// Its path in the repository.
        path: PathBuf,
    },
    /// A directory cannot be read.
    UnreadableDirectory {
        /// Its path in the repository.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Anyone may change something.
    OpenToAll {
        /// Its path in the repository.
        path: PathBuf,
    },
    /// The file of an image belongs to another user than its directory, and he may change it.
    OtherOwner {
        /// Its path in the repository.
        path: PathBuf,
        /// The number of the user to whom it belongs.
        owner: u32,
        /// That of the user to whom the directory belongs.
        expected: u32,
    },
    /// The file of an image is closed to others, and its directory with the metadata is not.
    HalfClosed {
        /// The path of the directory in the repository.
        path: PathBuf,
        /// The number of the group of the file.
        group: u32,
        /// Whether the group may read the file.
        is_for_group: bool,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingImage { label, digest } => {
                let id = digest.id();
                write!(f, "the image {id} of the label `{label}` is missing")
            }
            Self::WrongSize { digest, expected, found, .. } => {
                let id = digest.id();
                write!(f, "the image {id} has {found} bytes and should have {expected}")
            }
            Self::WrongDigest { digest, .. } => {
                write!(f, "the content of the image {} has changed", digest.id())
            }
            Self::UnreadableImage { digest, reason, .. } => {
                let (id, reason) = (digest.id(), escape(reason));
                write!(f, "the image {id} cannot be read: {reason}")
            }
            Self::UnreadableMeta { digest, reason, .. } => {
                let (id, reason) = (digest.id(), escape(reason));
                write!(f, "the metadata of the image {id} cannot be read: {reason}")
            }
            Self::NoLabel { digest } => write!(f, "the image {digest} has no label"),
            Self::UnreadableRef { file, reason } => {
                let (file, reason) = (escape(file), escape(reason));
                write!(f, "the ref `{file}` is damaged: {reason}")
            }
            Self::BadLabel { label, reason } => {
                let (label, reason) = (escape(label), escape(reason));
                write!(f, "the database has a label `{label}` that cannot be used: {reason}")
            }
            Self::Overtaken { label, digest } => {
                let id = digest.id();
                write!(f, "an earlier ref of the label `{label}` to the image {id} is left")
            }
            Self::BadIndex => f.write_str("the index is damaged, and lists take longer"),
            Self::UnreadablePin { path } => write!(
                f,
                "the pin `{}` does not name its label, and `cabane repo gc` removes nothing",
                shown(path)
            ),
            Self::UnreadableChannel { path } => {
                write!(f, "`{}` does not list the names that follow a channel", shown(path))
            }
            Self::Leftover { name } => {
                write!(f, "`tmp/{}` was left by a writer that is gone", escape(name))
            }
            Self::Stranger { path } => write!(f, "`{}` does not belong there", shown(path)),
            Self::UnreadableDirectory { path, reason } => {
                write!(f, "`{}` cannot be read: {}", shown(path), escape(reason))
            }
            Self::OpenToAll { path } => write!(f, "anybody may change `{}`", shown(path)),
            Self::OtherOwner { path, owner, .. } => {
                write!(f, "`{}` belongs to the user {owner}, who may change it", shown(path))
            }
            Self::HalfClosed { path, .. } => write!(
                f,
                "the image in `{}` is closed to others, and its metadata are not",
                shown(path)
            ),
        }
    }
}

impl Corruption {
    /// Returns what can be typed to repair it, in the order in which it is to be typed.
    pub fn remedies(&self, repository: &Path) -> Vec<String> {
        let cabane = |arguments: &str| format!("cabane --repo={} {arguments}", quoted(repository));
        let update = || vec![format!("cabane repo update {}", quoted(repository))];
        let inside = |path: &Path| quoted(&repository.join(path));
        match self {
            Self::MissingImage { label, .. } => {
                vec![cabane(&format!("image pull {label}"))]
            }
            // A pull sees that it is not whole, and brings it anew.
            Self::WrongSize { labels, .. } => pulls(labels, &cabane),
            Self::WrongDigest { digest, labels, .. }
            | Self::UnreadableImage { digest, labels, .. }
            | Self::UnreadableMeta { digest, labels, .. } => {
                let mut commands = vec![cabane(&format!("image rm {digest}"))];
                commands.extend(pulls(labels, &cabane));
                commands
            }
            Self::NoLabel { digest } => vec![cabane(&format!("image rm {digest}"))],
            Self::UnreadableRef { .. }
            | Self::Overtaken { .. }
            | Self::BadIndex
            | Self::Leftover { .. } => update(),
            // Only its author knows what it was meant to be.
            Self::BadLabel { .. } => Vec::new(),
            Self::UnreadablePin { path } | Self::UnreadableChannel { path } => {
                vec![format!("rm {}", inside(path))]
            }
            Self::Stranger { path } => vec![format!("rm -r {}", inside(path))],
            Self::UnreadableDirectory { path, .. } => vec![format!("chmod u+rwx {}", inside(path))],
            Self::OpenToAll { path } => vec![format!("chmod o-w {}", inside(path))],
            Self::OtherOwner { path, expected, .. } => {
                vec![format!("chown {expected} {}", inside(path))]
            }
            Self::HalfClosed { path, group, is_for_group } => {
                let path = inside(path);
                if *is_for_group {
                    vec![format!("chgrp {group} {path}"), format!("chmod g=rx,o= {path}")]
                } else {
                    vec![format!("chmod go= {path}")]
                }
            }
        }
    }

    /// Returns what `cabane repo update` does about it, if that loses something.
    pub fn loss(&self) -> Option<&'static str> {
        matches!(self, Self::MissingImage { .. })
            .then_some("`cabane repo update` forgets the label instead")
    }
}

fn pulls(labels: &[Label], cabane: &dyn Fn(&str) -> String) -> Vec<String> {
    let pull = |label: &Label| cabane(&format!("image pull {label}"));
    labels.iter().map(pull).collect()
}

/// Writes a path as one argument of a shell.
fn quoted(path: &Path) -> String {
    let path = shown(path);
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+=,%@:".contains(one);
    if path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_stays_one_argument() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
