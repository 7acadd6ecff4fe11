// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The only way out: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use cabane_report::{Notices, Transfer};
use serde::Serialize;
use transfer::Watched;

use crate::format::json;

mod transfer;

/// Styles of what people read. Nothing may depend on them to be understood.
pub(crate) mod style {
    use super::{AnsiColor, Style};

    /// The word `error`.
    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    /// The words `warning`.
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    /// The words `cause` and `hint`, names of images.
    pub(crate) const ACCENT: Style = AnsiColor::Cyan.on_default();
    /// What went well.
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    /// Heads of tables.
    pub(crate) const HEAD: Style = Style::new().bold();
    /// What matters less.
    pub(crate) const FAINT: Style = Style::new().dimmed();
}

/// Prints for people and programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    pub(crate) color: ColorChoice,
    pub(crate) verbosity: u8,
}

impl Printer {
    /// Prints a value as JSON.
    pub(crate) fn json(self, value: &impl Serialize) {
        self.data(json(value));
    }

    /// Prints data: a table, JSON, a path.
    ///
    /// A reader that went away (`cabane image ls | head -1`) is no error.
    pub(crate) fn data(self, text: impl Display) {
        let text = text.to_string();
        // Looking for styles to take away costs more than writing, and the lines of a
        // long list have none.
        let end_of_styles = text
            .rfind('\u{1b}')
            .map_or(0, |last| text[last..].find('\n').map_or(text.len(), |newline| last + newline));
        let (styled, plain) = text.split_at(end_of_styles);
        let mut out = AutoStream::new(io::stdout(), self.color);
        let _ = out
            .write_all(styled.as_bytes())
            .and_then(|()| out.flush())
            .and_then(|()| io::stdout().write_all(plain.as_bytes()))
            .and_then(|()| io::stdout().flush());
    }

    /// Prints an error.
    pub(crate) fn error(self, text: &str) {
        self.labelled(style::ERROR, "error", text);
    }

    /// Prints what was behind an error.
    pub(crate) fn cause(self, text: &str) {
        self.labelled(style::ACCENT, "cause", text);
    }

    /// Prints what the user can do.
    pub(crate) fn hint(self, text: &str) {
        self.labelled(style::ACCENT, "hint", text);
    }

    /// Prints a warning.
    pub(crate) fn warning(self, text: &str) {
        self.labelled(style::WARNING, "warning", text);
    }

    /// Prints what has been done, for people.
    pub(crate) fn note(self, text: impl Display) {
        self.to_stderr(format_args!("{text}\n"));
    }

    /// Prints what only `--verbose` shows.
    pub(crate) fn detail(self, text: impl Display) {
        if self.verbosity > 0 {
            self.to_stderr(format_args!("{}{text}{:#}\n", style::FAINT, style::FAINT));
        }
    }

    /// Prints lines as they are.
    pub(crate) fn lines(self, text: &str) {
        self.to_stderr(format_args!("{}\n", text.trim_end_matches('\n')));
    }

    /// Whether a person watches standard error.
    pub(crate) fn is_watched() -> bool {
        io::stderr().is_terminal()
    }

    fn labelled(self, style: Style, label: &str, text: &str) {
        self.to_stderr(format_args!("{style}{label}{style:#}: {text}\n"));
    }

    fn to_stderr(self, text: impl Display) {
        let mut out = AutoStream::new(io::stderr().lock(), self.color);
        // Without standard error there is nowhere to report.
        let _ = write!(out, "{text}").and_then(|()| out.flush());
    }
}

impl Notices for Printer {
    fn warning(&self, text: &str) {
        (*self).warning(text);
    }

    fn hint(&self, text: &str) {
        (*self).hint(text);
    }

    fn note(&self, text: &str) {
        (*self).note(text);
    }

    fn detail(&self, text: &str) {
        (*self).detail(text);
    }

    fn is_verbose(&self) -> bool {
        self.verbosity > 0
    }

    fn color_option(&self) -> String {
        let when = match self.color {
            ColorChoice::Always | ColorChoice::AlwaysAnsi => "always",
            ColorChoice::Never => "never",
            ColorChoice::Auto => "auto",
        };
        format!("--color={when}")
    }

    fn transfer(&self, what: &str) -> Box<dyn Transfer> {
        Box::new(Watched::new(*self, what))
    }
}
