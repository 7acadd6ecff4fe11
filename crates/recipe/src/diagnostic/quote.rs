// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pieces of foreign text in messages.

use cabane_label::escape;

/// The longest piece of foreign text that a message repeats, in characters.
const LONGEST: usize = 60;

/// Returns the text between back quotes, escaped, and cut if it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}…`", escape(&text[..end])),
        None => format!("`{}`", escape(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_quoted_in_part() {
        assert_eq!(quote(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
    }

    #[test]
    fn a_quoted_text_is_harmless() {
        assert_eq!(quote("a\u{1b}\n"), "`a\\u{1b}\\u{a}`");
    }
}
