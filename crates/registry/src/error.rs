// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong between here and a registry.
//!
//! No error holds a password, a token or the query of an address, which may be one. Texts of
//! registries are shown with their control characters escaped.

use std::error::Error as StdError;
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report};

/// A result whose error is that of a registry unless another is named.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a registry, or of the way to it.
#[derive(Debug)]
pub struct Error {
    /// What callers tell apart.
    pub kind: ErrorKind,
    /// The pause before the next attempt that the registry requests.
    pub(crate) retry_after: Option<Duration>,
    report: Report,
}

/// What callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The registry was not reached, and how the system calls that.
    Unreachable(io::ErrorKind),
    /// The registry could not be authenticated, or what answers is not encrypted.
    Insecure,
    /// Nothing came for a long time.
    Silent,
    /// The registry wants to know who asks, or does not accept who does (401).
    Unauthorized,
    /// Who asks may not do this (403).
    Forbidden,
    /// Another answer than what was hoped for, by its number.
    Status(u16),
    /// There is no such image.
    NoSuchImage,
    /// What is there is no image of a kind that is known here.
    NotAnImage,
    /// What came is not what was announced.
    WrongContent,
    /// A document cannot be understood.
    Document,
    /// The label has another image.
    LabelTaken,
    /// The registry does not delete.
    NoDeletion,
    /// The registry does not list what it has, and no one else does.
    NoListing,
    /// The file system refused something.
    File,
    /// Something that is only shown.
    Other,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, report: Report) -> Self {
        Self { kind, retry_after: None, report }
    }

    /// Adds the pause that the registry requests.
    pub(crate) fn after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// What came is not HTTP, or not that of a registry.
    pub(crate) fn odd(host: &str, reason: &str) -> Self {
        let reason = escape(reason);
        let message = format!("{host} does not answer as a registry does: {reason}");
        Report::new(Kind::Registry, message).into()
    }

    /// The file system has no space for an image.
    pub(crate) fn no_space(path: &Path, need: u64) -> Self {
        let path = shown(path);
        let message =
            format!("no space left on the file system of {path}: {need} bytes are needed");
        Report::new(Kind::Failure, message).into()
    }

    /// Returns whether the registry was not reached, so that every request would fail.
    #[must_use]
    pub fn is_about_connection(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable(_) | ErrorKind::Silent | ErrorKind::Insecure)
    }

    /// Returns whether the registry says that the same may succeed in a moment.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self.kind, ErrorKind::Status(status) if is_passing(status))
    }

    /// Returns a function that turns an answer of the file system into an error.
    pub(crate) fn io<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| {
            let message = format!("cannot {action} {}", shown(path));
            Self::new(ErrorKind::File, Report::caused(Kind::Failure, message, source))
        }
    }
}

/// Returns whether the same request may succeed in a moment after such an answer.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.report.causes().next()
    }
}

impl From<Report> for Error {
    fn from(report: Report) -> Self {
        Self::new(ErrorKind::Other, report)
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        error.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_sends_does_not_reach_the_terminal() {
        let error = Error::odd("registry.example", "a sum is \u{7}\u{1b}[2J");
        let escaped = "a sum is \\u{7}\\u{1b}[2J";
        assert!(error.to_string().ends_with(escaped), "{error}");
    }
}
