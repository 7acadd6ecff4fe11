// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A failure as the user sees it.
//!
//! Each crate has its own error type, for callers that handle failures differently. On the way to
//! the user, an error becomes a [`Report`] with a [`Kind`], from which the command line chooses the
//! exit code. The crate that defines the error implements the conversion.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::error::Error;
use std::{fmt, io};

/// A result whose error is a [`Report`] unless another is named.
pub type Result<T, E = Report> = std::result::Result<T, E>;

/// What has gone wrong, as far as programs tell failures apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that has no kind of its own, such as a file that cannot be written.
    Failure,
    /// The command line cannot be understood.
    Usage,
    /// A label, view, recipe, configuration file, or image is malformed.
    BadInput,
    /// No image, view, or repository matches.
    NotFound,
    /// Several images match, and only one may.
    Ambiguous,
    /// A repository is missing or corrupt, or the user may not open it.
    Repository,
    /// A build failed.
    Build,
    /// The user interrupted the command.
    Interrupted,
    /// A registry could not be reached, denied the request, or sent an invalid answer.
    Registry,
    /// An image does not have the signature that is required.
    Untrusted,
    /// The gate of a channel rejected an image.
    Rejected,
    /// Another MPI was refused, because it cannot work for this program.
    NotSwapped,
    /// A substitution of MPI could not be proven.
    NotProven,
    /// No environment is loaded.
    NotLoaded,
    /// The command could not be started.
    NotStarted,
    /// The command exists but cannot be started.
    NotExecutable,
    /// The command does not exist.
    CommandNotFound,
}

/// A failure as the user sees it: one error with its causes, details, and hints.
#[derive(Debug)]
pub struct Report {
    kind: Kind,
    error: Box<dyn Error + Send + Sync>,
    detail: Option<String>,
    hints: Vec<String>,
}

impl Report {
    /// Makes a report of an error or of a text.
    pub fn new(kind: Kind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into(), detail: None, hints: Vec::new() }
    }

    /// Makes a report of a text and its cause.
    pub fn caused(
        kind: Kind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::new(kind, Caused { message: message.into(), source: source.into() })
    }

    /// Adds lines that are shown unchanged between the error and its causes:
    /// a snippet, a table of candidates, the end of a log.
    #[must_use]
    pub fn detailed(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hints.extend(hint.into());
        self
    }

    /// Replaces text in the hints, where options have other names.
    #[must_use]
    pub fn with_hints_about(mut self, from: &str, to: &str) -> Self {
        for hint in &mut self.hints {
            *hint = hint.replace(from, to);
        }
        self
    }

    /// Changes the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns what has gone wrong.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the details.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns the causes of the error, the nearest first.
    pub fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        std::iter::successors(self.error.source(), |&error| error.source())
    }

    /// Returns what the user can do.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the error with its causes alone, as one.
    pub fn into_error(self) -> Box<dyn Error + Send + Sync> {
        self.error
    }

    /// Returns the error with its details and causes, and the hints, as texts.
    pub fn texts(&self) -> (String, Option<String>) {
        let mut text = self.to_string();
        for cause in self.causes() {
            text += &format!(": {cause}");
        }
        if let Some(detail) = &self.detail {
            text += &format!("\n{}", detail.trim_end());
        }
        let hints = Some(self.hints.join("\n")).filter(|hints| !hints.is_empty());
        (text, hints)
    }
}

/// The error alone.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Receives what an engine reports to its user while it works.
pub trait Notices: Send + Sync {
    /// Reports a possible problem.
    fn warning(&self, text: &str);
    /// Suggests what to do about a warning.
    fn hint(&self, text: &str);
    /// Reports what was done.
    fn note(&self, text: &str);
    /// Reports a detail, shown with `--verbose`.
    fn detail(&self, text: &str);
    /// Returns whether details are shown.
    fn is_verbose(&self) -> bool;
    /// Returns the option with which another process of this program colors its output in the same
    /// way.
    fn color_option(&self) -> String;
    /// Starts a progress display with a title, of bytes.
    fn transfer(&self, what: &str) -> Box<dyn Transfer>;
    /// Starts a progress display with a title, of things that are counted.
    fn counted(&self, what: &str) -> Box<dyn Transfer>;
}

/// The progress display of one transfer, or of other work.
pub trait Transfer: Send {
    /// Shows how much of the total is done.
    fn show(&self, done: u64, total: u64);
    /// Removes the display.
    fn end(&self);
}

/// Quotes a word of a command line for a shell such as bash, if it needs it. The result is one line if the word is.
#[must_use]
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "%+,-./:=@_".contains(one);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Formats a number of bytes for people, with decimal units.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit + 1 < UNITS.len() && bytes / scale >= 1_000 {
        scale *= 1_000;
        unit += 1;
    }
    let (whole, tenth) = (bytes / scale, bytes % scale * 10 / scale);
    if unit == 0 || whole >= 10 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenth} {}", UNITS[unit])
    }
}

/// Adds context to errors of the operating system.
pub trait IoContext<T> {
    /// Adds what could not be done, as in "cannot {what}".
    ///
    /// # Errors
    ///
    /// That of the operating system, as [`Kind::Failure`].
    fn or_failed(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn or_failed(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Report::caused(Kind::Failure, format!("cannot {}", what()), source))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Caused {
    message: String,
    source: Box<dyn Error + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_as_text_has_its_causes_details_and_hints() {
        let failed: io::Result<()> = Err(io::Error::other("the disk is on fire"));
        let report = failed.or_failed(|| "write it".to_owned()).unwrap_err();
        let report = report.detailed("two\nlines\n").hinted(None);
        let report = report.hinted("use `--water`".to_owned());
        let report = report.with_hints_about("--water", "--sand");
        let text = "cannot write it: the disk is on fire\ntwo\nlines".to_owned();
        assert_eq!(report.texts(), (text, Some("use `--sand`".to_owned())));
        assert_eq!(report.kind(), Kind::Failure);
    }

    #[test]
    fn a_word_is_quoted_for_a_shell_if_it_needs_it() {
        let words = ["numpy==2.1", "", "it's $HOME", "~"].map(shell_word);
        assert_eq!(words, ["numpy==2.1", "''", r"'it'\''s $HOME'", "'~'"]);
    }

    #[test]
    fn sizes_have_two_digits_at_the_most_significant_end() {
        let sizes = [999, 1_000, 9_990, 10_000, 87_498_752, 5_800_000_000, 999_999_999_999];
        let expected = ["999 B", "1.0 kB", "9.9 kB", "10 kB", "87 MB", "5.8 GB", "999 GB"];
        assert_eq!(sizes.map(size), expected);
        assert_eq!(size(u64::MAX), "18446 PB");
    }
}
