// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong with a container image.

use std::io;
use std::path::PathBuf;

use cabane_report::{Kind, Report};

use crate::tar::TarError;

/// Why a container image was not imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("cannot {action} {}", cabane_label::escape(&.path.to_string_lossy()))]
    Io {
        /// What was done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A disk is full.
    #[error("there is not enough space for the image in {}", cabane_label::escape(&.path.to_string_lossy()))]
    NoSpace {
        /// Where.
        path: PathBuf,
    },
    /// What was to be read holds no container image, or another kind of thing.
    #[error("{place} is not a container image: {reason}")]
    NotAnImage {
        /// Where it was looked for.
        place: String,
        /// Why it is none.
        reason: String,
    },
    /// There is no image of that name.
    #[error("no image in {place} is called `{}`", cabane_label::escape(.wanted))]
    NoSuchName {
        /// Where.
        place: String,
        /// What was requested.
        wanted: String,
        /// What there is.
        names: Vec<String>,
    },
    /// None of the images is for the platform.
    #[error("the image is not there for {wanted}; it is for {}", .there.join(", "))]
    NoPlatform {
        /// What was requested.
        wanted: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A document is damaged.
    #[error("{what} cannot be understood: {reason}")]
    Document {
        /// Which.
        what: String,
        /// Why not.
        reason: String,
    },
    /// Content is not what its digest says.
    #[error("{what} is not what it should be: its digest is {found}, and not {expected}")]
    Tampered {
        /// What it is.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A layer cannot be used.
    #[error("the layer {layer} cannot be used")]
    Layer {
        /// Its digest or file.
        layer: String,
        /// Why not.
        source: LayerProblem,
    },
    /// The program that writes images is missing.
    #[error("there is no `mksquashfs`")]
    NoProgram,
    /// The program that compresses layers is missing.
    #[error("there is no `zstd`")]
    NoZstd,
    /// It is too old.
    #[error("{} is version {found}, and {needed} is needed", cabane_label::escape(&.path.to_string_lossy()))]
    OldProgram {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// It failed, or complained.
    #[error("`{program}` failed: {message}")]
    Program {
        /// Which.
        program: &'static str,
        /// What it printed.
        message: String,
    },
    /// A directory holds something else than container images.
    #[error("{} holds something else than container images", cabane_label::escape(&.path.to_string_lossy()))]
    NotALayout {
        /// The directory.
        path: PathBuf,
    },
    /// Another image has the name in a layout.
    #[error("{place} has another image {}: {digest}", named(.name.as_deref()))]
    NameTaken {
        /// The layout.
        place: String,
        /// The name, if there is one.
        name: Option<String>,
        /// The digest of the other image.
        digest: String,
    },
    /// A file is there already.
    #[error("there is a file {} already", cabane_label::escape(&.path.to_string_lossy()))]
    FileThere {
        /// The file.
        path: PathBuf,
    },
    /// The caller interrupted it.
    #[error("the import was interrupted")]
    Interrupted,
}

/// Why a layer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayerProblem {
    /// It cannot be read or decompressed.
    #[error(transparent)]
    Io(io::Error),
    /// It is no archive.
    #[error("it is not an archive as tar writes them")]
    Tar(#[source] TarError),
    /// Something else than was announced.
    #[error("its {what} should have the digest {expected}, and have {found}")]
    Other {
        /// The bytes, or the content.
        what: &'static str,
        /// As it was announced.
        expected: String,
        /// As it is.
        found: String,
    },
    /// More or fewer bytes than were announced.
    #[error("it has {found} bytes, and not {expected}")]
    Size {
        /// As it was announced.
        expected: u64,
        /// As it is.
        found: u64,
    },
    /// A name with `..` in it.
    #[error("the name `{path}` leads upward")]
    Upward {
        /// The name.
        path: String,
    },
    /// A name that no file can have.
    #[error("no file can have the name `{path}`")]
    Name {
        /// The name.
        path: String,
    },
    /// A path that cannot be opened.
    #[error("the name `{path}` is too long")]
    LongPath {
        /// The name.
        path: String,
    },
    /// A symbolic link that leads nowhere at all.
    #[error("the symbolic link `{path}` has no target that one can have")]
    Target {
        /// The link.
        path: String,
    },
    /// The name of something hidden that names nothing.
    #[error("`{path}` hides nothing that there can be")]
    Whiteout {
        /// The name.
        path: String,
    },
    /// A hard link without a file.
    #[error("`{path}` is a hard link to `{target}`, which does not exist")]
    Dangling {
        /// The link.
        path: String,
        /// The file.
        target: String,
    },
    /// A hard link to a directory.
    #[error("`{path}` is a hard link to `{target}`, which is a directory")]
    LinkToDirectory {
        /// The link.
        path: String,
        /// The directory.
        target: String,
    },
    /// A file in the place of a directory, or the other way round.
    #[error("`/{path}` is {there} in the image, and {here} here")]
    OtherKind {
        /// The name.
        path: String,
        /// What it is in the image.
        there: &'static str,
        /// What is to be put there.
        here: &'static str,
    },
    /// Links in a circle.
    #[error("the name `{path}` leads through links without end")]
    Loop {
        /// The name.
        path: String,
    },
    /// Something else than a directory has the name of the root.
    #[error("the root of the image is not a directory in it")]
    Root,
    /// More entries than anyone needs.
    #[error("there are more than {limit} entries")]
    TooMany {
        /// How many are allowed.
        limit: u64,
    },
    /// More bytes than it may have when it is unpacked, with the layers above it.
    #[error(
        "it unpacks to at least {seen} bytes with the layers above it, and the limit is {limit}"
    )]
    TooLarge {
        /// What was seen or announced.
        seen: u64,
        /// The limit.
        limit: u64,
    },
    /// The caller interrupted it.
    #[error("it was interrupted")]
    Interrupted,
}

/// How kinds of files are called where they are mistaken for each other.
pub(crate) const DIRECTORY: &str = "a directory";
pub(crate) const NO_DIRECTORY: &str = "no directory";

fn named(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("called `{}`", cabane_label::escape(name)),
        None => "without a name".to_owned(),
    }
}

impl From<io::Error> for LayerProblem {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(Stop::Interrupted) => Self::Interrupted,
            Ok(Stop::TooLarge { seen, limit }) => Self::TooLarge { seen, limit },
            Err(error) => Self::Io(error),
        }
    }
}

impl From<TarError> for LayerProblem {
    fn from(error: TarError) -> Self {
        match error {
            // That says nothing about the archive; where a directory is read there is none.
            TarError::Io(error) => error.into(),
            error => Self::Tar(error),
        }
    }
}

impl Error {
    /// Returns what can be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoProgram => {
                "the package is called `squashfs-tools` in most distributions".to_owned()
            }
            Self::NoZstd => {
                "the package is called `zstd` in most distributions; `--compression gzip` needs no \
                 program"
                    .to_owned()
            }
            Self::OldProgram { .. } => {
                "squashfs-tools 4.5 or newer read archives; `PATH` decides which is used".to_owned()
            }
            Self::NoPlatform { there, .. } => {
                format!("`--platform {}` imports what there is", there.first()?)
            }
            Self::NoSuchName { names, .. } if !names.is_empty() => {
                format!("it has: {}", names.join(", "))
            }
            Self::NotALayout { .. } => "name a directory that is not there yet".to_owned(),
            Self::NameTaken { .. } => "`--force` gives the name to the new one".to_owned(),
            Self::FileThere { .. } => "`--force` replaces it".to_owned(),
            Self::Layer { source: LayerProblem::Io(error), .. }
                if error.kind() == io::ErrorKind::NotFound =>
            {
                "a part of the image is missing; copy it again, as a whole".to_owned()
            }
            Self::Layer {
                source: LayerProblem::OtherKind { path, there: DIRECTORY, .. }, ..
            } => format!("a file needs a name of its own there, such as `/{path}/NAME`"),
            Self::Layer { source: LayerProblem::Io(error), .. }
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                "no file is left out: make it readable, or let a user who can read it import it"
                    .to_owned()
            }
            Self::Layer { source: LayerProblem::TooLarge { .. }, .. } => {
                "if you trust the image, `cabane import --max-unpacked SIZE` sets another limit, \
                  such as `1T`"
                    .to_owned()
            }
            Self::Tampered { .. }
            | Self::Layer {
                source: LayerProblem::Other { .. } | LayerProblem::Size { .. }, ..
            } => "it was damaged or changed on its way; get it again from where it came".to_owned(),
            _ => return None,
        })
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            _ => Self::Io { action, path, source },
        }
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NoSuchName { .. } | Error::NoPlatform { .. } => Kind::NotFound,
            Error::NotAnImage { .. }
            | Error::Document { .. }
            | Error::Tampered { .. }
            | Error::Layer { .. } => Kind::BadInput,
            _ => Kind::Failure,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}

/// Why reading was stopped; it travels inside of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error("it was interrupted")]
    Interrupted,
    #[error("it decompresses to at least {seen} bytes")]
    TooLarge { seen: u64, limit: u64 },
}
