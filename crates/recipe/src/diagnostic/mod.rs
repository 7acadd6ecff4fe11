// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Diagnostics: what is wrong in a text, and where.
//!
//! A diagnostic names a file, a line and a column, shows the line with the
//! place underlined, and says what to type instead where that is known. It is
//! data: it is complete when it is made, keeps nothing of the text it speaks
//! about but the part that is shown, and the receiver decides whether
//! and in which colors to print it.
//!
//! Everything that comes from outside is escaped when the diagnostic is made,
//! so that printing one can never change the state of a terminal.

mod excerpt;
mod quote;
mod source;

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_report::{Kind, Report};
pub(crate) use quote::quote;
use serde::Serialize;
pub(crate) use source::Source;
use source::floor;

/// The longest line of a hint, in bytes.
const LONGEST_HINT: usize = 1_000;

/// One problem in a file.
///
/// `Display` is the whole diagnostic without color:
///
/// ```text
/// config.yaml:2:1: unknown key `descripton`
///   | descripton: tools for everyone
///   | ^^^^^^^^^^
///   hint: did you mean `description`?
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file as the caller named it.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// What is wrong: a lower-case fragment without a full stop.
    pub message: String,
    /// The line as it is shown: escaped, and cut to about 120 columns around
    /// the place if it is longer. `None` where no line can be shown.
    #[serde(skip)]
    pub source_line: Option<String>,
    /// What to type instead, or where to look.
    pub hint: Option<String>,
    /// Columns between the start of `source_line` and the underlined place.
    #[serde(skip)]
    indent: usize,
    /// Columns that are underlined, at least one.
    #[serde(skip)]
    width: usize,
}

impl Diagnostic {
    /// Makes a diagnostic about the bytes `place` of `text`.
    ///
    /// A place outside the text, or one that does not fall on characters, is
    /// moved to the nearest place that does. The message is escaped here.
    #[must_use]
    pub fn new(file: &Path, text: &str, place: Range<usize>, message: &str) -> Self {
        Source::new(file, text).diagnostic(place, message)
    }

    /// Makes a diagnostic about a whole file, of which no line is shown.
    #[must_use]
    pub fn about_file(file: &Path, message: &str) -> Self {
        Self {
            message: escape(message).into_owned(),
            file: file.to_owned(),
            line: 1,
            column: 1,
            source_line: None,
            hint: None,
            indent: 0,
            width: 1,
        }
    }

    /// Adds what to type instead. The hint is escaped here, line by line, and a line
    /// is cut that repeats something of the file that no one would type.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        let lines: Vec<_> =
            hint.lines().map(|line| escape(&line[..floor(line, LONGEST_HINT)])).collect();
        self.hint = Some(lines.join("\n"));
        self
    }

    /// Says something about this place, as text that is escaped already.
    #[must_use]
    pub fn saying(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Returns the whole diagnostic as text, in color if that is requested.
    ///
    /// The text does not end with a new line.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let paint = |style: &str, text: &str| {
            if color { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
        };
        let place =
            format!("{}:{}:{}:", escape(&self.file.to_string_lossy()), self.line, self.column);
        let mut text = format!("{} {}", paint(BOLD, &place), paint(BOLD_RED, &self.message));
        if let Some(line) = &self.source_line {
            let bar = paint(BLUE, "|");
            let caret = paint(BOLD_RED, &"^".repeat(self.width));
            let indent = " ".repeat(self.indent);
            text.push_str(format!("\n  {bar} {line}").trim_end());
            // Writing to a string does not fail.
            let _ = write!(text, "\n  {bar} {indent}{caret}");
        }
        if let Some(hint) = &self.hint {
            let hint = hint.replace('\n', "\n        ");
            let _ = write!(text, "\n  {} {hint}", paint(CYAN, "hint:"));
        }
        text
    }
}

const BOLD: &str = "1";
const BOLD_RED: &str = "1;31";
const BLUE: &str = "34";
const CYAN: &str = "36";

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Why files were refused: everything that is wrong with them, in their order, at least one
/// diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(diagnostics))]
pub struct Mistakes {
    what: &'static str,
    diagnostics: Vec<Diagnostic>,
}

impl Mistakes {
    /// Takes what is wrong in files, of which `what` is the kind.
    pub(crate) fn in_the(what: &'static str) -> impl FnOnce(Vec<Diagnostic>) -> Self {
        move |diagnostics| Self { what, diagnostics }
    }

    /// Returns what is wrong, in the order of the files.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl From<Mistakes> for Report {
    fn from(mistakes: Mistakes) -> Self {
        malformed(mistakes.what, &mistakes.diagnostics)
    }
}

/// Reports everything that is wrong in a file, of which `what` is the kind.
#[must_use]
pub fn malformed(what: &str, mistakes: &[Diagnostic]) -> Report {
    let message = match mistakes.len() {
        1 => format!("a mistake in {what}"),
        count => format!("{count} mistakes in {what}"),
    };
    Report::new(Kind::BadInput, message).detailed(joined(mistakes))
}

/// Writes diagnostics one below the other.
fn joined(diagnostics: &[Diagnostic]) -> String {
    let all: Vec<_> = diagnostics.iter().map(Diagnostic::to_string).collect();
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Diagnostic {
        Diagnostic::new(Path::new("config.yaml"), "name: a\nnmae: b\n", 8..12, "unknown key")
            .with_hint("did you mean `name`?")
    }

    #[test]
    fn a_diagnostic_shows_file_line_column_source_and_hint() {
        assert_eq!(
            sample().to_string(),
            "config.yaml:2:1: unknown key\n  | nmae: b\n  | ^^^^\n  hint: did you mean `name`?"
        );
    }

    #[test]
    fn without_colour_there_is_no_escape_sequence() {
        assert!(!sample().render(false).contains('\u{1b}'));
    }

    #[test]
    fn colour_changes_nothing_but_the_escape_sequences() {
        let colored = sample().render(true);
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some(start) = rest.find("\u{1b}[") {
            plain.push_str(&rest[..start]);
            let end = rest[start..].find('m').expect("a sequence ends with m");
            rest = &rest[start + end + 1..];
        }
        plain.push_str(rest);
        assert_eq!(plain, sample().render(false));
    }

    #[test]
    fn what_comes_from_outside_cannot_control_the_terminal() {
        let file = Path::new("a\u{1b}[2Jb.yaml");
        let shown = Diagnostic::new(file, "x: \u{1b}]0;t\u{7}\u{202e}", 3..4, "bad \u{9b}31m")
            .with_hint("\u{1b}[1m\rno")
            .to_string();
        assert_eq!(
            shown,
            "a\\u{1b}[2Jb.yaml:1:4: bad \\u{9b}31m\n  \
             | x: \\u{1b}]0;t\\u{7}\\u{202e}\n  \
             |    ^^^^^^\n  \
             hint: \\u{1b}[1m\\u{d}no"
        );
    }

    #[test]
    fn a_hint_does_not_repeat_what_cannot_be_typed() {
        let hint = format!("write `{}`", "é".repeat(10_000));
        let shown = sample().with_hint(&hint).to_string();
        assert!(shown.len() < 1_200, "{}", shown.len());
    }

    #[test]
    fn a_hint_of_several_lines_stays_in_its_column() {
        let shown = sample().with_hint("write\n  name: b").render(false);
        assert!(shown.ends_with("\n  hint: write\n          name: b"), "{shown}");
    }
}
