// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong with a container image.

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, escape, shown};
use cabane_report::{Kind, Report};

use crate::tar::TarError;
use crate::{Platform, digest};

/// Why a container image was not imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("cannot {action} {}", shown(.path))]
    Io {
        /// What was done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// What was to be read holds no container image, or another kind of thing.
    #[error("{place} is not a container image: {reason}")]
    NotAnImage {
        /// Where it was looked for.
        place: String,
        /// Why it is none.
        reason: String,
    },
    /// A layer cannot be used.
    #[error("the layer {layer} cannot be used")]
    Layer {
        /// Its digest or file.
        layer: String,
        /// Why not.
        source: LayerProblem,
    },
    /// Anything else.
    #[error("{0}")]
    Refused(Report),
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
    /// It is not what was announced, or holds what cannot be in an image.
    #[error("{0}")]
    Refused(Report),
    /// The caller interrupted it.
    #[error("it was interrupted")]
    Interrupted,
}

impl From<io::Error> for LayerProblem {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(Stop::Interrupted) => Self::Interrupted,
            Ok(Stop::TooLarge { seen, limit }) => Self::too_large(seen, limit),
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

/// What can be done about content that is not what its digest says.
const DAMAGED: &str = "it was damaged or changed on its way; get it again from where it came";

impl LayerProblem {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(bad_input(message))
    }

    /// More bytes than it may have when it is unpacked, with the layers above it.
    pub(crate) fn too_large(seen: u64, limit: u64) -> Self {
        let message = format!(
            "it unpacks to at least {seen} bytes with the layers above it, and the limit is {limit}"
        );
        let hint = "if you trust the image, `cabane import --max-unpacked SIZE` sets another \
                    limit, such as `1T`";
        Self::Refused(bad_input(message).hinted(hint.to_owned()))
    }

    /// Something else than was announced.
    pub(crate) fn damaged(message: String) -> Self {
        Self::Refused(bad_input(message).hinted(DAMAGED.to_owned()))
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Io(error) => Some(match error.kind() {
                io::ErrorKind::NotFound => {
                    "a part of the image is missing; copy it again, as a whole".to_owned()
                }
                io::ErrorKind::PermissionDenied => {
                    "no file is left out: make it readable, or let a user who can read it import it"
                        .to_owned()
                }
                _ => return None,
            }),
            Self::Refused(report) => report.hints().first().cloned(),
            Self::Tar(_) | Self::Interrupted => None,
        }
    }
}

impl Error {
    /// The program that writes images is missing.
    #[must_use]
    pub fn no_program() -> Self {
        let hint = "the package is called `squashfs-tools` in most distributions".to_owned();
        Self::Refused(failure("there is no `mksquashfs`").hinted(hint))
    }

    /// A program failed, or complained.
    pub(crate) fn program(program: &str, message: &str) -> Self {
        Self::Refused(failure(format!("`{program}` failed: {}", escape(message))))
    }

    /// A file is there already.
    #[must_use]
    pub fn file_there(path: &Path) -> Self {
        let message = format!("there is a file {} already", shown(path));
        Self::Refused(failure(message).hinted("`--force` replaces it".to_owned()))
    }

    /// A disk is full.
    pub(crate) fn no_space(path: &Path) -> Self {
        let path = shown(path);
        Self::Refused(failure(format!("there is not enough space for the image in {path}")))
    }

    /// A document is damaged.
    #[must_use]
    pub fn document(what: &str, reason: &str) -> Self {
        Self::Refused(bad_input(format!("{what} cannot be understood: {reason}")))
    }

    /// Content is not what its digest says.
    pub(crate) fn tampered(what: &str, expected: &Digest, found: &Digest) -> Self {
        let (expected, found) = (digest::written(expected), digest::written(found));
        let message =
            format!("{what} is not what it should be: its digest is {found}, and not {expected}");
        Self::Refused(bad_input(message).hinted(DAMAGED.to_owned()))
    }

    /// What was to be read holds no container image.
    pub(crate) fn not_an_image(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotAnImage { place: shown(path), reason: reason.into() }
    }

    /// There is no image of that name; `names` are those that there are.
    pub(crate) fn no_such_name(
        path: &Path,
        wanted: Option<&str>,
        names: impl Iterator<Item = String>,
    ) -> Self {
        let (place, wanted) = (shown(path), escape(wanted.unwrap_or("latest")));
        let message = format!("no image in {place} is called `{wanted}`");
        let names: Vec<String> = names.map(|name| escape(&name).into_owned()).collect();
        let hint = (!names.is_empty()).then(|| format!("it has: {}", names.join(", ")));
        Self::Refused(Report::new(Kind::NotFound, message).hinted(hint))
    }

    /// None of the images is for the platform.
    pub(crate) fn no_platform(wanted: &Platform, there: &[String]) -> Self {
        let all = there.join(", ");
        let message = format!("the image is not there for {wanted}; it is for {all}");
        let hint = there.first().map(|one| format!("`--platform {one}` imports what there is"));
        Self::Refused(Report::new(Kind::NotFound, message).hinted(hint))
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::no_space(&path),
            _ => Self::Io { action, path, source },
        }
    }
}

/// Makes a report of a failure that has no kind of its own.
pub(crate) fn failure(message: impl Into<String>) -> Report {
    Report::new(Kind::Failure, message.into())
}

/// Makes a report of something in an image that is not as it must be.
pub(crate) fn bad_input(message: impl Into<String>) -> Report {
    Report::new(Kind::BadInput, message.into())
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(report) => report,
            Error::Layer { ref source, .. } => {
                let hint = source.hint();
                Self::new(Kind::BadInput, error).hinted(hint)
            }
            Error::NotAnImage { .. } => Self::new(Kind::BadInput, error),
            Error::Io { .. } | Error::Interrupted => Self::new(Kind::Failure, error),
        }
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
