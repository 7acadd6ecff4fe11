// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a command fails: one error, its causes, hints, and an exit code.

use std::error::Error;

use cabane_label::escape;

use crate::exit_codes::{self, ExitCode};
use crate::printer::Printer;

/// What a command returns.
pub(crate) type CommandResult<T = ExitCode> = Result<T, CommandError>;

/// An error as the user sees it.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// The exit code.
    pub(crate) code: ExitCode,
    error: Box<dyn Error + Send + Sync>,
    detail: Option<String>,
    hints: Vec<String>,
}

impl CommandError {
    /// Makes an error out of one of a library.
    pub(crate) fn new(code: ExitCode, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            code,
            error: error.into(),
            detail: None,
            hints: Vec::new(),
        }
    }

    /// Adds lines that are shown as they are between the error and its causes:
    /// a snippet, a table of candidates, the end of a log.
    #[must_use]
    pub(crate) fn detailed(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub(crate) fn hinted(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hints.extend(hint.into());
        self
    }

    /// Changes words in the hints, where options have other names.
    #[must_use]
    pub(crate) fn with_hints_about(mut self, from: &str, to: &str) -> Self {
        for hint in &mut self.hints {
            *hint = hint.replace(from, to);
        }
        self
    }

    /// Changes the exit code.
    #[must_use]
    pub(crate) fn with_code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// Returns the error with its details and causes, and the hints, as texts.
    pub(crate) fn texts(&self) -> (String, Option<String>) {
        let mut text = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        if let Some(detail) = &self.detail {
            text += &format!("\n{}", detail.trim_end());
        }
        let hints = Some(self.hints.join("\n")).filter(|hints| !hints.is_empty());
        (text, hints)
    }

    /// Prints the error.
    pub(crate) fn print(&self, printer: Printer) {
        printer.error(&self.error.to_string());
        if let Some(detail) = &self.detail {
            printer.lines(detail);
        }
        let mut cause = self.error.source();
        while let Some(error) = cause {
            // What it says may come from outside.
            let lines: Vec<_> = error
                .to_string()
                .lines()
                .map(|line| escape(line).into_owned())
                .collect();
            printer.cause(&lines.join("\n"));
            cause = error.source();
        }
        for hint in &self.hints {
            printer.hint(hint);
        }
    }
}

/// Errors of the operating system that name their object.
pub(crate) trait IoContext<T> {
    /// Says what could not be done.
    fn or_failed(self, what: impl FnOnce() -> String) -> CommandResult<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn or_failed(self, what: impl FnOnce() -> String) -> CommandResult<T> {
        self.map_err(|source| {
            CommandError::new(
                exit_codes::FAILURE,
                Failed {
                    what: what(),
                    source,
                },
            )
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
struct Failed {
    what: String,
    source: std::io::Error,
}
