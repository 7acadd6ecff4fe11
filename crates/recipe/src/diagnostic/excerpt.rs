// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of a line that is shown, and where in it to draw the underline.

use cabane_label::escape;

/// The most columns of a source line that are shown.
const WINDOW: usize = 120;
/// How many of them lie before the place when a long line is cut.
const BEFORE: usize = 50;

/// A line as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Columns before the underlined place.
    pub(super) indent: usize,
    /// Underlined columns, at least one.
    pub(super) width: usize,
}

impl Excerpt {
    /// Shows `line` so that its bytes from `start` to `end` can be seen.
    ///
    /// Both must be on characters of the line, `end` not before `start`.
    pub(super) fn new(line: &str, start: usize, end: usize) -> Self {
        let (before, marked, after) = (&line[..start], &line[start..end], &line[end..]);
        // A line of a few megabytes must not be measured to its ends.
        let is_short =
            line.len() <= 4 * WINDOW && line.chars().map(columns).sum::<usize>() <= WINDOW;
        let (space_before, space) = if is_short { (WINDOW, WINDOW) } else { (BEFORE, WINDOW) };

        let mut text = String::new();
        let kept = tail(before, space_before);
        if kept.len() < before.len() {
            text.push('…');
        }
        push_shown(&mut text, kept);
        let indent = width_of(&text);

        let kept = head(marked, space.saturating_sub(indent));
        push_shown(&mut text, kept);
        let width = (width_of(&text) - indent).max(1);
        if kept.len() < marked.len() {
            text.push('…');
        } else {
            let kept = head(after, space.saturating_sub(indent + width));
            push_shown(&mut text, kept);
            if kept.len() < after.len() {
                text.push('…');
            }
        }
        Self { text, indent, width }
    }
}

/// Returns the longest start of the text that fits into so many columns.
fn head(text: &str, space: usize) -> &str {
    let mut used = 0;
    for (offset, character) in text.char_indices() {
        used += columns(character);
        if used > space {
            return &text[..offset];
        }
    }
    text
}

/// Returns the longest end of the text that fits into so many columns.
fn tail(text: &str, space: usize) -> &str {
    let mut used = 0;
    for (offset, character) in text.char_indices().rev() {
        used += columns(character);
        if used > space {
            return &text[offset + character.len_utf8()..];
        }
    }
    text
}

fn push_shown(shown: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            // Wide enough to be noticed: tabs are what is wrong in many files.
            '\t' => shown.push_str(TAB),
            _ => shown.push_str(&escape(character.encode_utf8(&mut [0; 4]))),
        }
    }
}

const TAB: &str = "    ";

fn width_of(shown: &str) -> usize {
    shown.chars().map(columns).sum()
}

/// Tells whether a character is shown as its code point.
fn is_hidden(character: char) -> bool {
    !character.is_ascii_graphic() && escape(character.encode_utf8(&mut [0; 4])).starts_with('\\')
}

/// Returns how many columns a character takes when it is shown.
///
/// A rough table of wide and of combining characters is enough here: where it
/// is wrong, the underline is a little off, and the line and the column in the
/// first line of the diagnostic are still right.
fn columns(character: char) -> usize {
    match character {
        '\t' => TAB.len(),
        _ if is_hidden(character) => escape(character.encode_utf8(&mut [0; 4])).len(),
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn underlined(excerpt: &Excerpt) -> String {
        excerpt.text.chars().skip(excerpt.indent).take(excerpt.width).collect()
    }

    #[test]
    fn a_short_line_is_shown_whole() {
        let line = "a".repeat(120);
        assert_eq!(Excerpt::new(&line, 3, 5).text, line);
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides_of_the_place() {
        let line = format!("{}WORD{}", "-".repeat(1_000), "+".repeat(1_000));
        let excerpt = Excerpt::new(&line, 1_000, 1_004);
        let expected = format!("…{}WORD{}…", "-".repeat(50), "+".repeat(65));
        assert_eq!((excerpt.text.as_str(), excerpt.indent), (expected.as_str(), 51));
    }

    #[test]
    fn a_place_longer_than_the_window_is_cut_too() {
        let line = "x".repeat(500);
        let excerpt = Excerpt::new(&line, 0, 500);
        assert_eq!((excerpt.text, excerpt.width), (format!("{}…", "x".repeat(120)), 120));
    }

    #[test]
    fn the_underline_lies_under_the_word_after_a_tab_and_an_escape() {
        let line = "\t\u{1b}word";
        assert_eq!(underlined(&Excerpt::new(line, 2, 6)), "word");
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        let excerpt = Excerpt::new("東: x", "東: ".len(), "東: x".len());
        assert_eq!(excerpt.indent, 4);
    }

    #[test]
    fn the_end_of_a_line_can_be_marked() {
        assert_eq!(
            Excerpt::new("name", 4, 4),
            Excerpt { text: "name".to_owned(), indent: 4, width: 1 }
        );
    }

    proptest! {
        #[test]
        fn an_excerpt_is_harmless_and_fits_the_window(
            before in "\\PC{0,90}|[\\x00-\\x1f\u{202e}a]{0,90}",
            marked in "\\PC{0,90}",
            after in "\\PC{0,300}",
        ) {
            let line = format!("{before}{marked}{after}");
            let excerpt = Excerpt::new(&line, before.len(), before.len() + marked.len());
            prop_assert!(!excerpt.text.chars().any(is_hidden));
            prop_assert!(width_of(&excerpt.text) <= WINDOW + 3);
            prop_assert!(excerpt.width >= 1);
        }
    }
}
