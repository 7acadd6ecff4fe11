// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a text is not the word it should be, and at which character.

use std::fmt;
use std::ops::Range;

use cabane_report::{Kind, Report};

use crate::Expected;
use crate::escape::{escape, push_escaped};

/// The reason why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseErrorKind {
    /// There is no text.
    #[error("nothing is there")]
    Empty,
    /// A separator is there, but nothing after it.
    #[error("the {part} is missing after `{separator}`")]
    MissingAfter {
        /// What should follow.
        part: Expected,
        /// The separator.
        separator: char,
    },
    /// A separator is there, but nothing before it.
    #[error("the {part} is missing before `{separator}`")]
    MissingBefore {
        /// What should be there.
        part: Expected,
        /// The separator.
        separator: &'static str,
    },
    /// A character that may be inside of a word, but not at its beginning.
    #[error("{} cannot start with `{}`", part.with_article(), shown(*character))]
    Start {
        /// The word.
        part: Expected,
        /// Its first character.
        character: char,
    },
    /// A character that does not belong there.
    #[error("{} cannot contain `{}`", part.with_article(), shown(*character))]
    Character {
        /// The word.
        part: Expected,
        /// The first character of it that does not belong there.
        character: char,
    },
    /// A word with too many characters.
    #[error("{} has at most {limit} characters, but this has {length}", part.with_article())]
    TooLong {
        /// The word.
        part: Expected,
        /// How many characters it has.
        length: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A text that is too long to be looked at.
    #[error("it has {bytes} bytes, and at most {limit} are read")]
    TextTooLong {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A part of a label is there two times.
    #[error("the {part} is given twice")]
    Twice {
        /// The part.
        part: Expected,
    },
    /// The parts of a label are in the wrong order.
    #[error("`{}` comes before `{}`: the order is `name/version:tag@system%uarch`", part.in_label(), before.in_label())]
    Order {
        /// The part that comes too late.
        part: Expected,
        /// The part that should come after it.
        before: Expected,
    },
    /// Anything else, as a text.
    #[error("{0}")]
    Other(String),
}

/// A character as it may be in a message.
fn shown(character: char) -> String {
    let mut text = String::new();
    push_escaped(&mut text, character);
    text
}

/// A text that is not the word it should be.
///
/// `Display` gives one line; [`ParseError::pointer`] shows the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(Box<Details>);

/// What an error tells; boxed, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    input: String,
    /// The bytes of the input that the message quotes: one element of a list.
    quoted: Range<usize>,
    /// The byte at which the input is wrong; at most its length.
    offset: usize,
    expected: Expected,
    kind: ParseErrorKind,
    hint: Option<String>,
}

impl ParseError {
    /// The number of characters up to which a text is quoted whole.
    const QUOTED: usize = 80;

    /// Says that `input` is not what was expected, because of what stands at
    /// byte `offset`.
    #[must_use]
    pub fn new(expected: Expected, input: &str, offset: usize, kind: ParseErrorKind) -> Self {
        let offset = boundary(input, offset);
        let quoted = 0..input.len();
        let input = input.to_owned();
        Self(Box::new(Details { input, quoted, offset, expected, kind, hint: None }))
    }

    /// Adds what the user could type instead.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<String>) -> Self {
        self.0.hint = hint;
        self
    }

    /// Places an error that was found in one element, beginning at byte
    /// `start`, into the whole text that was read.
    ///
    /// The message still quotes the element; the pointer shows the whole text.
    #[must_use]
    pub fn within(mut self, whole: &str, start: usize) -> Self {
        let place = |offset: usize| boundary(whole, start.saturating_add(offset));
        self.0.quoted = place(self.0.quoted.start)..place(self.0.quoted.end);
        self.0.offset = place(self.0.offset);
        whole.clone_into(&mut self.0.input);
        self
    }

    /// Returns the whole text that was read, as it was.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.0.input
    }

    /// Returns the number of characters before the one that is wrong.
    #[must_use]
    pub fn position(&self) -> usize {
        self.0.input[..self.0.offset].chars().count()
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &ParseErrorKind {
        &self.0.kind
    }

    /// Returns what could be typed instead, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.0.hint.clone()
    }

    /// Returns two lines: the input, and a `^` under the character that is
    /// wrong.
    ///
    /// Of a long input only the surroundings of that character are shown.
    #[must_use]
    pub fn pointer(&self) -> String {
        const BEFORE: usize = 48;
        const AFTER: usize = 24;
        let (before, after) = self.0.input.split_at(self.0.offset);
        let (mut first, mut last) = (0, self.0.input.len());
        if self.0.input.chars().nth(Self::QUOTED).is_some() {
            first = before.char_indices().rev().nth(BEFORE - 1).map_or(0, |(index, _)| index);
            last = after.char_indices().nth(AFTER).map_or(last, |(index, _)| self.0.offset + index);
        }
        let left = if first > 0 { "…" } else { "" };
        let right = if last < self.0.input.len() { "…" } else { "" };
        let shown_before = escape(&self.0.input[first..self.0.offset]);
        let shown_after = escape(&self.0.input[self.0.offset..last]);
        // A column is a character; the escaped form is what is counted.
        let column = left.chars().count() + shown_before.chars().count();
        format!("{left}{shown_before}{shown_after}{right}\n{:column$}^", "")
    }

    /// The quoted text, escaped and cut to a length that fits on a line.
    fn excerpt(&self) -> String {
        let quoted = &self.0.input[self.0.quoted.clone()];
        match quoted.char_indices().nth(Self::QUOTED) {
            None => escape(quoted).into_owned(),
            Some((end, _)) => format!("{}…", escape(&quoted[..end])),
        }
    }
}

/// Returns the last place at or before a byte where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.0.expected.with_article();
        if self.0.kind == ParseErrorKind::Empty {
            return write!(f, "{expected} is expected, but nothing is there");
        }
        write!(f, "`{}` is not {expected}: {}", self.excerpt(), self.0.kind)
    }
}

impl std::error::Error for ParseError {}

/// With the place of the mistake.
impl From<ParseError> for Report {
    fn from(error: ParseError) -> Self {
        let pointer = error.pointer();
        let lines: Vec<_> = pointer.lines().map(|line| format!("  {line}")).collect();
        let hint = error.hint();
        Self::new(Kind::BadInput, error).detailed(lines.join("\n")).hinted(hint)
    }
}
