// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The mistakes of those who write YAML by hand, found again from the place
//! where the parser gave up.

use super::lines::{KeyAndValue, in_quotes, indentation};
use crate::diagnostic::quote;
use crate::node::Place;
use crate::report::Problem;

/// The longest line that a hint repeats, in bytes.
const LONGEST_HINT: usize = 80;

pub(super) const TEMPLATE: (&str, &str) =
    ("this is a template, not a recipe", "write the values that the template would put here");

/// Where the parser stood when it gave up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// The byte that the parser points at.
    pub(super) offset: usize,
    /// The byte behind what was understood last.
    pub(super) understood: usize,
    /// The byte of the innermost `[` or `{` that is open.
    pub(super) bracket: Option<usize>,
}

/// A text and where in it the parser gave up.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) scene: Scene,
}

impl<'a> Text<'a> {
    /// The character the parser points at.
    pub(super) fn here(self) -> Place {
        self.one(self.scene.offset)
    }

    /// The one character at a byte.
    fn one(self, start: usize) -> Place {
        let length = self.text[start..].chars().next().map_or(0, char::len_utf8);
        Place { start, end: start + length }
    }

    /// The character the parser points at, in words.
    fn character(self) -> String {
        let place = self.here();
        quote(&self.text[place.start..place.end])
    }

    fn line_start(self, offset: usize) -> usize {
        self.text[..offset].rfind(['\n', '\r']).map_or(0, |end| end + 1)
    }

    fn line(self, offset: usize) -> &'a str {
        let rest = &self.text[self.line_start(offset)..];
        &rest[..rest.find(['\n', '\r']).unwrap_or(rest.len())]
    }

    /// The line before that has something in it, and where it starts.
    fn line_before(self, offset: usize) -> Option<(usize, &'a str)> {
        let before = self.text[..self.line_start(offset)].trim_end();
        (!before.is_empty()).then(|| (self.line_start(before.len()), self.line(before.len())))
    }

    /// The place of a line without its indentation.
    pub(super) fn whole_line(self, offset: usize) -> Place {
        let (start, line) = (self.line_start(offset), self.line(offset));
        Place { start: start + indentation(line), end: start + line.trim_end().len() }
    }

    /// What to type so that the value in this line is a text.
    pub(super) fn quoting_hint(self, otherwise: &str) -> String {
        let line = self.line(self.scene.offset);
        match in_quotes(line) {
            Some(quoted) if self.scene.bracket.is_none() => {
                format!("put the text in quotes: `{quoted}`")
            }
            _ => otherwise.to_owned(),
        }
    }

    pub(super) fn tab(self) -> Problem {
        // The parser may point at the beginning of the text before the tab.
        let tab = self.text[self.scene.offset..].find('\t').unwrap_or(0);
        Problem::new(self.one(self.scene.offset + tab), "a tab is not allowed here")
            .hint("indent with spaces, two for each step")
    }

    pub(super) fn open_quote(self) -> Problem {
        let from = self.scene.understood.min(self.scene.offset);
        let Some(found) = self.text[from..].find(['"', '\'']) else {
            return Problem::new(self.here(), "a quote is never closed");
        };
        let start = from + found;
        let mark = &self.text[start..=start];
        let line = self.line(start).trim();
        let explanation = Problem::new(self.one(start), "this quote is never closed");
        if line.matches(mark).count() == 1 && line.len() < LONGEST_HINT {
            explanation.hint(format!("write `{line}{mark}`"))
        } else {
            explanation.hint(format!("write {} at the end of the text", quote(mark)))
        }
    }

    pub(super) fn escape(self) -> Problem {
        let rest = &self.text[self.scene.offset..];
        let mut characters = rest.char_indices();
        while let Some((found, character)) = characters.next() {
            if character != '\\' {
                continue;
            }
            let next = characters.next();
            if let Some((_, escaped)) = next
                && !"0abtnvfre \"/\\N_LP\n\r\t".contains(escaped)
            {
                let start = self.scene.offset + found;
                let place = Place { start, end: start + 1 + escaped.len_utf8() };
                let written = quote(&self.text[place.start..place.end]);
                let message = format!("between double quotes {written} means nothing");
                return Problem::new(place, message)
                    .hint(self.quoting_hint("use single quotes, in which `\\` is a letter"));
            }
        }
        Problem::new(self.here(), "this text has an invalid `\\`")
            .hint("use single quotes, in which `\\` is a letter")
    }

    pub(super) fn open_bracket(self) -> Problem {
        let (offset, bytes) = (self.scene.offset, self.text.as_bytes());
        // Where the parser points at a bracket that is never closed, it has not
        // yet reported that the bracket was opened.
        let open = match bytes.get(offset) {
            Some(b'[' | b'{') => Some(offset),
            _ => self.scene.bracket,
        };
        let Some(open) = open else {
            return Problem::new(self.here(), "this is not allowed inside brackets")
                .hint("text with brackets, commas, or colons needs quotes here");
        };
        let (bracket, close) = match bytes.get(open) {
            Some(b'{') => ("`{`", "`}`"),
            _ => ("`[`", "`]`"),
        };
        if self.text[open..offset].contains('\n') || open == offset {
            return Problem::new(self.one(open), format!("this {bracket} is never closed"))
                .hint(format!("write {close} behind the last value"));
        }
        Problem::new(self.here(), format!("a `,` or {close} is expected before this"))
            .hint("text with brackets, commas, or colons needs quotes here")
    }

    pub(super) fn closing_bracket(self) -> Problem {
        let message = format!("this {} closes nothing", self.character());
        let line = self.line(self.scene.offset);
        let is_list = KeyAndValue::of(line).is_some_and(|kv| kv.value.starts_with(['[', '{']));
        let explanation = Problem::new(self.here(), message);
        if is_list {
            explanation.hint("remove it")
        } else {
            explanation.hint(self.quoting_hint("remove it, or put the text in quotes"))
        }
    }

    /// A colon that makes a key of what cannot be one.
    pub(super) fn colon(self) -> Problem {
        let offset = self.scene.offset;
        let (start, line) = (self.line_start(offset), self.line(offset));
        if let Some(found) = KeyAndValue::of(line)
            && start + found.value_start <= offset
        {
            return Problem::new(
                self.here(),
                "a text without quotes cannot contain a colon and a space",
            )
            .hint(self.quoting_hint("put the text in quotes"));
        }
        match self.line_before(offset) {
            Some((_, above))
                if indentation(line) > indentation(above) && KeyAndValue::of(above).is_some() =>
            {
                Problem::new(
                    self.whole_line(offset),
                    "this line is indented further, but the line above already has a value",
                )
                .hint("begin both lines in the same column")
            }
            Some((above, _)) => self.not_a_pair(above),
            None => Problem::new(self.here(), "a key is not possible here"),
        }
    }

    pub(super) fn no_key(self) -> Problem {
        self.not_a_pair(self.scene.offset)
    }

    /// A line that should be `key: value`.
    fn not_a_pair(self, offset: usize) -> Problem {
        let line = self.line(offset).trim();
        let explanation = Problem::new(
            self.whole_line(offset),
            "a key, a colon, a space, and a value are expected in this line",
        );
        let cut = |c: char| matches!(c, ':' | '=');
        let parts = line.split_once(cut).or_else(|| line.split_once(' '));
        match parts.map(|(key, value)| (key.trim_end(), value)) {
            Some((key, value)) if is_word(key) && line.len() < LONGEST_HINT => {
                explanation.hint(format!("write `{key}: {}`", value.trim_start()))
            }
            _ => explanation.hint("a text of several lines is indented, or in quotes"),
        }
    }

    /// A line that begins in a column where nothing is open.
    pub(super) fn column(self) -> Problem {
        let offset = self.scene.offset;
        let (start, line) = (self.line_start(offset), self.line(offset));
        let before = &self.text[start..offset];
        if let Some(percent) = self.text.find('%')
            && self.line(percent).starts_with('%')
        {
            return Problem::new(self.one(percent), "a line cannot begin with `%`")
                .hint("put the word in quotes");
        }
        if line.trim_start().starts_with("- ") {
            return Problem::new(
                self.whole_line(offset),
                "this item belongs to no list: it begins in another column than those above",
            )
            .hint("begin all items of a list in the same column, below their key");
        }
        if before.trim().is_empty() {
            return Problem::new(
                self.whole_line(offset),
                "this line begins in a column in which no line above begins",
            )
            .hint("begin all keys of a section in the same column");
        }
        Problem::new(self.here(), "this does not belong behind the value")
            .hint(self.quoting_hint("put the text in quotes"))
    }

    pub(super) fn list_behind_key(self) -> Problem {
        let line = self.line(self.scene.offset);
        let explanation = Problem::new(self.here(), "a list cannot begin in the line of its key");
        match KeyAndValue::of(line) {
            Some(KeyAndValue { key, value, .. }) if line.len() < LONGEST_HINT => {
                let item = value.trim_start_matches("- ");
                explanation.hint(format!("write `{key}: [{item}]`, or each item in its own line"))
            }
            _ => explanation.hint("write each item in a line of its own"),
        }
    }

    pub(super) fn alias(self) -> Problem {
        let start = self.scene.offset;
        let rest = &self.text[start..];
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}');
        let end = start + rest.find(is_end).unwrap_or(rest.len());
        let word = &self.text[start..end];
        let name = word.trim_start_matches('*');
        let message = format!(
            "{} is an alias, but there is no anchor {} above",
            quote(word),
            quote(&format!("&{name}"))
        );
        let explanation = Problem::new(Place { start, end }, message);
        match KeyAndValue::of(self.line(start)) {
            Some(KeyAndValue { key: "<<", .. }) => {
                explanation.hint(format!("write `&{name}` before the section that is to be merged"))
            }
            _ => explanation.hint(self.quoting_hint("put text that begins with `*` in quotes")),
        }
    }

    pub(super) fn first_character(self) -> Problem {
        let here = self.here();
        let before = here.start.saturating_sub(1);
        if self.text.get(before..).is_some_and(|rest| rest.starts_with("{%")) {
            return Problem::new(Place { start: before, end: here.end }, TEMPLATE.0)
                .hint(TEMPLATE.1);
        }
        let character = match self.character().as_str() {
            "```" => "a back quote".to_owned(),
            "``" => "nothing".to_owned(),
            other => other.to_owned(),
        };
        let message = format!("a text without quotes cannot begin with {character}");
        Problem::new(here, message).hint(self.quoting_hint("put the text in quotes"))
    }
}

/// Tells whether a word could be a key.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}
