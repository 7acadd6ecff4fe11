// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong in a repository.
//!
//! Every error names the object it is about. Names that come from outside are shown with their
//! control characters escaped.

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label, shown, shown_word};
use cabane_report::{Kind, Report};
use cabane_view::MetaError;

use crate::groups;

/// An error of a repository.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository at this path.
    #[error("no repository at {}", shown(.path))]
    NotARepository {
        /// Where a repository was expected.
        path: PathBuf,
    },
    /// The database of a repository of uenv cannot be read or changed.
    #[error("{0}")]
    Database(Box<Report>),
    /// The repository cannot be used, or what was requested does not fit it.
    #[error("{message}")]
    Refused {
        /// What was refused, and why.
        message: String,
        /// What the user can type.
        hint: Option<String>,
    },
    /// The file is not an image that can be kept.
    #[error("{} is not a usable image", shown(.path))]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// The label is taken by another image.
    #[error("the label `{label}` belongs to the image {}", .digest.id())]
    LabelTaken {
        /// The label.
        label: Box<Label>,
        /// The image that has it.
        digest: Digest,
    },
    /// Other processes change the label again and again.
    #[error("other processes keep changing the label `{label}`")]
    LabelChanges {
        /// The label.
        label: Box<Label>,
    },
    /// Other images are built on an image that was to be removed.
    #[error("other images are built on the image {}, and cannot be mounted without it:{}", .digest.id(), lines(.labels))]
    IsBase {
        /// The image.
        digest: Digest,
        /// The labels of the others.
        labels: Vec<Label>,
    },
    /// No image has this label.
    #[error("no image has the label `{label}` in the repository {}", shown(.repository))]
    NoSuchLabel {
        /// The label.
        label: Box<Label>,
        /// The repository.
        repository: PathBuf,
    },
    /// There is no image with this digest.
    #[error("no image with the digest {digest} in the repository {}", shown(.repository))]
    NoSuchImage {
        /// The digest.
        digest: Digest,
        /// The repository.
        repository: PathBuf,
    },
    /// Another writer removed the image while it was given a label.
    #[error("the image {} was removed by another process at the same time", .digest.id())]
    RemovedMeanwhile {
        /// The image.
        digest: Digest,
    },
    /// A deduplicated image cannot be assembled from its parts.
    #[error("the image {} cannot be assembled: {reason}", .digest.id())]
    DamagedParts {
        /// The image.
        digest: Digest,
        /// One of its labels.
        label: Option<Box<Label>>,
        /// The repository.
        repository: PathBuf,
        /// What is wrong, and with which file.
        reason: String,
    },
    /// What was downloaded or brought is not the image that was awaited.
    #[error("what came is the image {} and not {}", .found.id(), .expected.id())]
    OtherImage {
        /// The image that was awaited.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// An image is for one group or its owner, and cannot be kept from others.
    #[error("{} cannot be closed to all but {}", shown(.path), readers(*.group))]
    Access {
        /// The file or directory.
        path: PathBuf,
        /// The number of the group; none if it is for the owner alone.
        group: Option<u32>,
        /// The answer of the file system.
        source: io::Error,
    },
    /// A pin does not say which label it is for.
    #[error("the pin {} does not name its label", shown(.path))]
    Pin {
        /// The file.
        path: PathBuf,
    },
    /// The file with the names that follow a channel is damaged.
    #[error("{} does not list the names that follow a channel", shown(.path))]
    Channel {
        /// The file.
        path: PathBuf,
    },
    /// The file system has no space for the image.
    #[error("no space left on the file system of {}{}", shown(.path), amounts(*.need, *.free))]
    NoSpace {
        /// Where the space is missing.
        path: PathBuf,
        /// How many bytes the image takes, when that is known.
        need: Option<u64>,
        /// How many are free, when that is known.
        free: Option<u64>,
    },
    /// The metadata cannot be understood.
    #[error("the metadata {} cannot be read", shown(.path))]
    Meta {
        /// The metadata file.
        path: PathBuf,
        /// Why not.
        source: MetaError,
    },
    /// The metadata directory holds something that is not kept in a repository.
    #[error("the metadata {} cannot be kept", shown(.path))]
    MetaEntry {
        /// The file, link or directory in question.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file system refused something.
    #[error("cannot {action} {}", shown(.path))]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
}

/// Why a file is not a usable image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is no file, no image, or an image that cannot be mounted.
    #[error("{0}")]
    Unusable(String),
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

/// What is there of a path: who may do something with it decides about the rest.
fn there(path: &Path) -> PathBuf {
    let is_missing = |path: &&Path| {
        path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let found = path.ancestors().find(|path| !is_missing(path));
    found.unwrap_or(path).to_owned()
}

impl Error {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotARepository { path } => {
                Some(format!("`cabane repo create {}` makes one", shown_word(path)))
            }
            Self::LabelTaken { .. } => {
                Some("`--force` gives the label to the new image".to_owned())
            }
            Self::Refused { hint, .. } => hint.clone(),
            Self::IsBase { digest, labels } => labels.first().map(|first| {
                format!(
                    "remove them first (`cabane image rm {first}`), or `cabane image rm --force {}` \
                     removes the image nevertheless",
                    digest.id()
                )
            }),
            Self::DamagedParts { label: Some(label), .. } => Some(format!(
                "`cabane image pull {label}` downloads it again; without a registry, `cabane image add {label} FILE`"
            )),
            Self::DamagedParts { repository, .. } => Some(format!(
                "`cabane repo status --verify {}` finds what is damaged",
                shown(repository)
            )),
            Self::Database(report) => report.hints().first().cloned(),
            Self::RemovedMeanwhile { .. } | Self::LabelChanges { .. } => {
                Some("try the same command again".to_owned())
            }
            Self::Pin { path } => Some(format!("`rm {}` removes it", shown(path))),
            Self::Channel { path } => Some(format!(
                "remove it with `rm {}`, and pull the images of the channel again",
                shown(path)
            )),
            Self::Access { group: Some(group), .. } => Some(format!(
                "`getent group {}` shows who may: only its members give files to it",
                groups::name_of(*group)
            )),
            Self::Io { source, path, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("`ls -ld {}` shows who may", shown(&there(path))))
            }
            _ => None,
        }
    }

    /// Returns whether something is wrong with an image that was to be brought from a directory,
    /// or with its metadata, and not with the repository into which it was to be brought.
    pub fn is_of_source(&self, source: &Path) -> bool {
        match self {
            Self::Io { path, .. } | Self::Image { path, .. } => path.starts_with(source),
            Self::Meta { .. } | Self::MetaEntry { .. } | Self::OtherImage { .. } => true,
            _ => false,
        }
    }

    /// Returns a function that turns an answer of the file system into an error.
    ///
    /// A full disk becomes an error of its own wherever it shows up.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned(), need: None, free: None }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }
}

fn readers(group: Option<u32>) -> String {
    group.map_or_else(
        || "its owner".to_owned(),
        |group| format!("the group {} and its owner", groups::name_of(group)),
    )
}

fn lines(labels: &[Label]) -> String {
    labels.iter().fold(String::new(), |lines, label| lines + "\n  " + &label.to_string())
}

fn amounts(need: Option<u64>, free: Option<u64>) -> String {
    match (need, free) {
        (Some(need), Some(free)) => format!(": {need} bytes are needed and {free} are free"),
        (Some(need), None) => format!(": {need} bytes are needed"),
        (None, _) => String::new(),
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        let error = match error {
            Error::Database(report) => return *report,
            error => error,
        };
        let kind = match &error {
            Error::NoSuchLabel { .. } | Error::NoSuchImage { .. } => Kind::NotFound,
            Error::Image { .. } | Error::Meta { .. } | Error::MetaEntry { .. } => Kind::BadInput,
            Error::NoSpace { .. }
            | Error::LabelTaken { .. }
            | Error::LabelChanges { .. }
            | Error::IsBase { .. } => Kind::Failure,
            _ => Kind::Repository,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}
