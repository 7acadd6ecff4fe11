// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong in a repository.
//!
//! Every error names the object it is about. Names that come from outside are shown with their
//! control characters escaped.

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, Label, escape, shown};
use cabane_report::{Kind, Report};
use cabane_view::MetaError;

/// An error of a repository.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository at this path.
    #[error("no repository at {}", shown(.path))]
    NotARepository {
        /// Where a repository was expected.
        path: PathBuf,
    },
    /// The directory is a repository of the uenv tool.
    #[error("{} is a repository of uenv", shown(.path))]
    UenvRepository {
        /// The directory that holds an `index.db`.
        path: PathBuf,
    },
    /// The repository was written by a later version of this program.
    #[error(
        "the repository {} has format {found}, and this program knows formats up to {known}",
        shown(.path)
    )]
    NewerFormat {
        /// The repository.
        path: PathBuf,
        /// The format it has.
        found: u32,
        /// The last format this program knows.
        known: u32,
    },
    /// The file that marks a repository does not say what it must.
    #[error("{} does not say which format the repository has", shown(.path))]
    BadMarker {
        /// The marking file.
        path: PathBuf,
    },
    /// A repository was to be created where there is one.
    #[error("there is a repository at {} already", shown(.path))]
    Exists {
        /// The repository.
        path: PathBuf,
    },
    /// A repository was to be created in a directory that holds other things.
    #[error("the directory {} is not empty: it holds `{}`", shown(.path), escape(.entry))]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// Something in it.
        entry: String,
    },
    /// The file is not an image that can be kept.
    #[error("{} is not a usable image", shown(.path))]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// An image of the repository itself was to be moved into the repository.
    #[error("{} is in the repository already and cannot be moved there", shown(.path))]
    InsideRepository {
        /// The image.
        path: PathBuf,
    },
    /// The label is taken by another image.
    #[error("the label `{label}` belongs to the image {}", .digest.id())]
    LabelTaken {
        /// The label.
        label: Box<Label>,
        /// The image that has it.
        digest: Digest,
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
    /// A repository was to be copied into itself.
    #[error("{} cannot be copied into itself", shown(.path))]
    SameRepository {
        /// The repository.
        path: PathBuf,
    },
    /// The repository into which another one is copied has labels of its own.
    #[error("the repository {} has labels of its own, such as `{label}`", shown(.path))]
    OtherLabels {
        /// The repository.
        path: PathBuf,
        /// One of the labels.
        label: Box<Label>,
    },
    /// A pin does not say which label it is for.
    #[error("the pin {} does not name its label", shown(.path))]
    Pin {
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
        source: EntryProblem,
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
    /// It is a directory or a device.
    #[error("it is {kind} and not a file")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },
    /// It is neither squashfs nor EROFS.
    #[error("it is {found}, and neither squashfs nor EROFS")]
    NotAnImage {
        /// What it looks like.
        found: &'static str,
    },
    /// It is squashfs, but of a version that no supported kernel mounts.
    #[error("it is squashfs of version {major}, and only version 4 can be mounted")]
    OldSquashfs {
        /// The version in the file.
        major: u16,
    },
    /// Its end is missing.
    #[error("it is cut off: it should have at least {need} bytes and has {have}")]
    Truncated {
        /// The size of the file.
        have: u64,
        /// The size that its first bytes announce.
        need: u64,
    },
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

/// Why a part of a metadata directory is not kept.
#[derive(Debug, thiserror::Error)]
pub enum EntryProblem {
    /// A symbolic link that is absolute or leads out of the directory.
    #[error("it is a symbolic link that leads out of the metadata directory, to `{}`", escape(.target))]
    LinkOutside {
        /// Where it leads.
        target: String,
    },
    /// A device, socket or named pipe.
    #[error("it is neither a file nor a directory nor a symbolic link")]
    Special,
    /// Directories in directories without end.
    #[error("its directories are nested more than {limit} deep")]
    TooDeep {
        /// How deep they may be.
        limit: usize,
    },
    /// Too many files.
    #[error("it has more than {limit} entries")]
    TooMany {
        /// How many are allowed.
        limit: u64,
    },
    /// Too many bytes.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// How many are allowed.
        limit: u64,
    },
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
                Some(format!("`cabane repo create {}` makes one", shown(path)))
            }
            Self::NotEmpty { path, .. } => {
                let inside = shown(&path.join("repository"));
                Some(format!("`cabane repo create {inside}` makes one inside that directory"))
            }
            Self::LabelTaken { .. } => {
                Some("`--force` gives the label to the new image".to_owned())
            }
            Self::InsideRepository { .. } => {
                Some("`cabane image add LABEL IMAGE` gives an image a second label".to_owned())
            }
            Self::NewerFormat { .. } => Some("install a later version of cabane".to_owned()),
            Self::RemovedMeanwhile { .. } => Some("try the same command again".to_owned()),
            Self::Exists { path } => {
                Some(format!("`cabane repo status {}` shows what is in it", shown(path)))
            }
            Self::OtherLabels { .. } => {
                Some("`--sync` adds to it what it does not have".to_owned())
            }
            Self::Pin { path } => Some(format!("`rm {}` removes it", shown(path))),
            Self::Access { group: Some(group), .. } => Some(format!(
                "`getent group {group}` shows who may: only its members give files to it"
            )),
            Self::UenvRepository { path } => {
                Some(format!("`cabane repo import {}` copies its images", shown(path)))
            }
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
    group.map_or_else(|| "its owner".to_owned(), |group| format!("the group {group} and its owner"))
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
        let kind = match &error {
            Error::NoSuchLabel { .. } | Error::NoSuchImage { .. } => Kind::NotFound,
            Error::Image { .. } | Error::Meta { .. } | Error::MetaEntry { .. } => Kind::BadInput,
            Error::NoSpace { .. } | Error::LabelTaken { .. } => Kind::Failure,
            _ => Kind::Repository,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}
