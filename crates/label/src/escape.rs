// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Text from outside, made safe to show.
//!
//! Labels, metadata and file names are written by others. A terminal obeys the
//! control characters in them, and a reader is misled by those that are
//! invisible or turn the direction of writing; so neither reaches a message.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// Returns `text` with every character that a terminal could obey, or a reader
/// could not see, written as `\u{1b}`.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        push_escaped(&mut shown, character);
    }
    Cow::Owned(shown)
}

/// Returns a path as it may be in a message, escaped as [`escape()`] does.
#[must_use]
pub fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}

/// Returns a path or another word of a command line as a hint shows it: quoted for a shell if it needs
/// that, and escaped.
#[must_use]
pub fn shown_word(word: impl AsRef<Path>) -> String {
    escape(&cabane_report::shell_word(&word.as_ref().to_string_lossy())).into_owned()
}

/// Appends one character in the form in which it may be shown.
pub(crate) fn push_escaped(shown: &mut String, character: char) {
    if is_hidden(character) {
        // Writing to a string does not fail.
        let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
    } else {
        shown.push(character);
    }
}

/// Tells whether a character must not be shown as it is.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{feff}'
            // Spaces without width, marks of direction, separators of lines.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // Annotations and tags, which no font draws.
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns `text` as it may be in a page of HTML, also in an attribute: it cannot become part of
/// the page, and what [`escape()`] shows is shown.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let text = escape(text);
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Joins names for a message: `` `a`, `b`, and `c` ``, or with another last word.
#[must_use]
pub fn enumerate<T: AsRef<str>>(names: &[T], last: &str) -> String {
    let quoted: Vec<String> =
        names.iter().map(|name| format!("`{}`", escape(name.as_ref()))).collect();
    match quoted.as_slice() {
        [first @ .., end] if first.len() > 1 => format!("{}, {last} {end}", first.join(", ")),
        few => few.join(&format!(" {last} ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_sequence_is_shown_and_not_obeyed() {
        assert_eq!(escape("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
    }

    #[test]
    fn a_turned_direction_of_writing_is_shown() {
        assert_eq!(escape("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn letters_of_any_script_stay_as_they_are() {
        assert_eq!(escape("Zürich 東京"), "Zürich 東京");
    }
}
