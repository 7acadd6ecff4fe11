// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A text and where its lines are.

use std::ops::Range;
use std::path::Path;

use super::Diagnostic;
use super::excerpt::Excerpt;

/// A file that is being read: its name, its text, and where its lines start.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
    /// The offset of the first byte of every line.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Finds the lines of a text. `\n`, `\r\n`, and `\r` end a line, as in YAML.
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        let mut lines = vec![0];
        let bytes = text.as_bytes();
        for (offset, byte) in bytes.iter().enumerate() {
            let ends_line = match byte {
                b'\n' => true,
                b'\r' => bytes.get(offset + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends_line {
                lines.push(offset + 1);
            }
        }
        Self { file, text, lines }
    }

    /// Returns the number of the line that holds a byte, counted from 1.
    pub(crate) fn line_number(&self, offset: usize) -> u32 {
        let line = self.lines.partition_point(|&start| start <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }

    /// Returns the line that holds a byte, without what ends it, and where it starts.
    pub(crate) fn line_at(&self, offset: usize) -> (usize, &'a str) {
        let number = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[number - 1];
        let end = self.lines.get(number).copied().unwrap_or(self.text.len());
        (start, self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    /// Returns the line and the column of a byte, both counted from 1.
    pub(crate) fn position(&self, offset: usize) -> (u32, u32) {
        let place = self.diagnostic(offset..offset, "");
        (place.line, place.column)
    }

    /// Makes a diagnostic about some bytes of the text, all of one line: what
    /// goes beyond the end of the line is not underlined.
    pub(crate) fn diagnostic(&self, place: Range<usize>, message: &str) -> Diagnostic {
        let start = floor(self.text, place.start);
        let (line_start, line) = self.line_at(start);
        let start = (start - line_start).min(line.len());
        let end = floor(line, place.end.saturating_sub(line_start)).max(start);
        let column = u32::try_from(line[..start].chars().count() + 1).unwrap_or(u32::MAX);
        let excerpt = Excerpt::new(line, start, end);
        Diagnostic {
            line: self.line_number(line_start),
            column,
            source_line: Some(excerpt.text),
            indent: excerpt.indent,
            width: excerpt.width,
            ..Diagnostic::about_file(self.file, message)
        }
    }
}

/// Returns the last place at or before a byte where a character begins.
pub(super) fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(text: &str, offset: usize) -> (u32, u32) {
        let diagnostic = Source::new(Path::new("f"), text).diagnostic(offset..offset, "m");
        (diagnostic.line, diagnostic.column)
    }

    #[test]
    fn lines_end_as_in_yaml() {
        let text = "a\nb\r\nc\rd";
        let lines: Vec<u32> =
            ['a', 'b', 'c', 'd'].iter().map(|c| place(text, text.find(*c).unwrap()).0).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }

    #[test]
    fn columns_are_counted_in_characters() {
        assert_eq!(place("é東x", "é東".len()), (1, 3));
    }

    #[test]
    fn a_place_behind_the_text_is_its_end() {
        assert_eq!(place("ab\ncd", 99), (2, 3));
    }

    #[test]
    fn the_end_of_a_file_that_ends_with_a_new_line_is_a_line_of_its_own() {
        assert_eq!(place("ab\n", 3), (2, 1));
    }

    #[test]
    fn a_place_of_several_lines_is_underlined_to_the_end_of_the_first() {
        let shown = Source::new(Path::new("f"), "ab cd\nef\n").diagnostic(3..8, "m").to_string();
        assert_eq!(shown, "f:1:4: m\n  | ab cd\n  |    ^^");
    }

    proptest! {
        #[test]
        fn any_place_in_any_text_can_be_shown(text in "[\\PC\n\r\t]{0,60}", a in 0usize..300, b in 0usize..300) {
            let shown = Diagnostic::new(Path::new("f"), &text, a..b, "m");
            prop_assert!(shown.line >= 1 && shown.column >= 1);
        }
    }
}
