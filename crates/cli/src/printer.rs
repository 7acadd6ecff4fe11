// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The only way out: data to standard output, everything else to standard error.

use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use cabane_impact::Verdict;
use cabane_label::escape;
use cabane_report::{Notices, Report, Transfer};
use serde::Serialize;
use transfer::{Unit, Watched};

use crate::uenv;

mod transfer;

/// Styles of what people read. Nothing may depend on them to be understood.
pub(crate) mod style {
    use super::{AnsiColor, Style};

    /// The label `error`.
    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    /// The label `warning`.
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    /// The labels `cause` and `hint`, names of images.
    pub(crate) const ACCENT: Style = AnsiColor::Cyan.on_default();
    /// What went well.
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    /// Heads of tables.
    pub(crate) const HEAD: Style = Style::new().bold();
    /// What matters less.
    pub(crate) const FAINT: Style = Style::new().dimmed();
}

/// Returns the style of a verdict about an image.
pub(crate) fn verdict_color(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Breaks => style::ERROR,
        Verdict::RebuildAdvised | Verdict::Unknown => style::WARNING,
        Verdict::Unaffected => style::GOOD,
    }
}

/// Prints for people and programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    pub(crate) color: ColorChoice,
    pub(crate) verbosity: u8,
    /// Whether the program is called `uenv`, and its texts name the commands that it has then.
    pub(crate) is_uenv: bool,
}

/// Text on its way to standard output, in parts of whole lines, so that a long list is not in memory
/// twice.
///
/// Looking for styles to take away costs more than writing, and most lines of a long list have none.
/// No style goes on over the end of a line.
struct Lines {
    color: ColorChoice,
    pending: String,
    /// How much of it is whole lines. Only new text is searched: JSON can be one line of megabytes.
    whole: usize,
}

const PART: usize = 64 * 1024;

impl Lines {
    fn put(&mut self, end: usize) -> fmt::Result {
        let rest = self.pending.split_off(end);
        let part = std::mem::replace(&mut self.pending, rest);
        self.whole = 0;
        let written = if part.contains('\u{1b}') {
            AutoStream::new(io::stdout(), self.color).write_all(part.as_bytes())
        } else {
            io::stdout().write_all(part.as_bytes())
        };
        written.map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(last) = text.rfind('\n') {
            self.whole = self.pending.len() + last + 1;
        }
        self.pending.push_str(text);
        if self.pending.len() < PART || self.whole == 0 {
            return Ok(());
        }
        self.put(self.whole)
    }
}

/// Returns how many characters fit in a line, if standard output is a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    // Some terminals do not say.
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

impl Printer {
    /// Prints a value as JSON. It has no escape sequences, and is not in memory as a whole.
    #[expect(clippy::unused_self, reason = "what is printed goes through the printer")]
    pub(crate) fn json(self, value: &impl Serialize) {
        let mut out = io::BufWriter::with_capacity(PART, io::stdout());
        // Only the writer fails: what is shown has names as keys.
        let _ = serde_json::to_writer_pretty(&mut out, value);
        let _ = out.write_all(b"\n").and_then(|()| out.flush());
    }

    /// Prints a value as JSON in one line.
    #[expect(clippy::unused_self, reason = "what is printed goes through the printer")]
    pub(crate) fn json_line(self, value: &impl Serialize) {
        let mut out = io::BufWriter::with_capacity(PART, io::stdout());
        let _ = serde_json::to_writer(&mut out, value);
        let _ = out.write_all(b"\n").and_then(|()| out.flush());
    }

    /// Prints data: a table, JSON, a path.
    ///
    /// A reader that went away (`cabane image ls | head -1`) is no error.
    pub(crate) fn data(self, text: impl Display) {
        let mut out = Lines { color: self.color, pending: String::new(), whole: 0 };
        // Only the writer fails.
        let _ = write!(out, "{text}").and_then(|()| out.put(out.pending.len()));
        let _ = io::stdout().flush();
    }

    /// Prints a failure with its details, causes and hints.
    pub(crate) fn failure(self, report: &Report) {
        self.labelled(style::ERROR, "error", &report.to_string());
        if let Some(detail) = report.detail() {
            self.to_stderr(format_args!("{}\n", detail.trim_end_matches('\n')));
        }
        for cause in report.causes() {
            // Its text may come from outside.
            let text = cause.to_string();
            let lines: Vec<_> = text.lines().map(escape).collect();
            self.labelled(style::ACCENT, "cause", &lines.join("\n"));
        }
        for hint in report.hints() {
            self.hint(hint);
        }
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
        if self.is_uenv {
            let text = uenv::with_its_commands(&text.to_string());
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            return;
        }
        // Without standard error there is nowhere to report.
        let _ = write!(out, "{text}").and_then(|()| out.flush());
    }
}

impl Notices for Printer {
    fn warning(&self, text: &str) {
        self.labelled(style::WARNING, "warning", text);
    }

    fn hint(&self, text: &str) {
        self.labelled(style::ACCENT, "hint", text);
    }

    fn note(&self, text: &str) {
        self.to_stderr(format_args!("{text}\n"));
    }

    fn detail(&self, text: &str) {
        if self.verbosity > 0 {
            self.to_stderr(format_args!("{}{text}{:#}\n", style::FAINT, style::FAINT));
        }
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
        Box::new(Watched::new(*self, what, Unit::Bytes))
    }

    fn counted(&self, what: &str) -> Box<dyn Transfer> {
        Box::new(Watched::new(*self, what, Unit::Things))
    }
}
