// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of text.

use std::fmt::{self, Write as _};

use crate::printer::{style, terminal_width};

/// What is between two columns.
const BETWEEN: &str = "  ";
/// The least width to which a column shrinks.
const LEAST: usize = 16;

/// A table with a head.
///
/// All cells are in one text: a list of ten thousand images would spend its time on
/// as many small ones.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name of each column, with `>` before it where cells are aligned to the right.
    columns: Vec<&'static str>,
    text: String,
    /// Where each cell ends in the text.
    ends: Vec<usize>,
    /// The width of the widest cell of each column.
    widths: Vec<usize>,
    has_head: bool,
}

impl Table {
    /// Starts a table with these columns. `>` before a name aligns a column to the right, for numbers.
    /// Where no column has a name, there is no head.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            text: String::new(),
            ends: Vec::new(),
            widths: vec![0; columns.len()],
            has_head: columns.iter().any(|column| !name_of(column).is_empty()),
        }
    }

    /// Prints rows only.
    pub(crate) fn without_head(mut self) -> Self {
        self.has_head = false;
        self
    }

    /// Makes room for many rows. Growing by and by would need half as much again.
    pub(crate) fn reserve(&mut self, rows: usize) {
        const USUAL_CELL: usize = 16;
        let cells = rows.saturating_mul(self.columns.len());
        self.ends.reserve(cells);
        self.text.reserve(cells.saturating_mul(USUAL_CELL));
    }

    /// Adds a row with a cell for every column.
    pub(crate) fn push(&mut self, row: &[&dyn fmt::Display]) {
        for (cell, width) in row.iter().zip(&mut self.widths) {
            let start = self.text.len();
            // Writing to a string does not fail.
            let _ = write!(self.text, "{cell}");
            self.ends.push(self.text.len());
            let written = self.text.get(start..).unwrap_or_default();
            *width = (*width).max(width_of(written));
        }
    }

    /// Adds a column; before the first row.
    pub(crate) fn add_column(&mut self, column: &'static str) {
        self.columns.push(column);
        self.widths.push(0);
    }

    /// Returns the table below a head, as part of a longer text.
    pub(crate) fn indented(&self) -> String {
        self.to_string().lines().flat_map(|line| ["  ", line, "\n"]).collect()
    }

    /// Returns each row in one line, without the head, and however long it is.
    pub(crate) fn rows(&self) -> Vec<String> {
        let widths = self.widths_within(None);
        let mut rows = Vec::with_capacity(self.ends.len() / self.columns.len());
        for cells in self.each_row() {
            let mut line = String::new();
            self.push_line(&mut line, &widths, cells);
            rows.push(line);
        }
        rows
    }

    /// Returns the cells of each row.
    fn each_row(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        let columns = self.columns.len();
        (0..self.ends.len() / columns).map(move |row| {
            let first = row * columns;
            (first..first + columns).map(|cell| {
                let start = if cell == 0 { 0 } else { self.ends[cell - 1] };
                self.text.get(start..self.ends[cell]).unwrap_or_default()
            })
        })
    }

    /// Returns the width of each column. Where a terminal has no place for all, the widest columns get
    /// less: a longer cell then has a line for itself, and no word is cut.
    fn widths_within(&self, limit: Option<usize>) -> Vec<usize> {
        let heads = self.columns.iter().map(|column| name_of(column).len());
        let heads: Vec<usize> = heads.map(|head| if self.has_head { head } else { 0 }).collect();
        let pairs = self.widths.iter().zip(&heads);
        let mut widths: Vec<usize> = pairs.map(|(width, head)| *width.max(head)).collect();
        let Some(limit) = limit else { return widths };
        let gaps = BETWEEN.len() * widths.len().saturating_sub(1);
        let can_shrink = |place: usize, width: usize| {
            let is_text = self.columns.get(place).is_some_and(|column| !column.starts_with('>'));
            is_text && width > LEAST.max(heads.get(place).copied().unwrap_or_default())
        };
        loop {
            let total = widths.iter().sum::<usize>() + gaps;
            let each = widths.iter().copied().enumerate();
            let widest = each.filter(|(place, width)| can_shrink(*place, *width));
            let Some((place, width)) = widest.max_by_key(|(_, width)| *width) else { break };
            let Some(excess) = total.checked_sub(limit).filter(|excess| *excess > 0) else { break };
            let least = LEAST.max(heads[place]);
            widths[place] = width.saturating_sub(excess).max(least);
        }
        widths
    }

    fn push_line<'a>(
        &self,
        line: &mut String,
        widths: &[usize],
        cells: impl Iterator<Item = &'a str>,
    ) {
        // Where the column begins, and how far the line reaches.
        let (mut start, mut end) = (0, 0);
        for ((cell, width), column) in cells.zip(widths).zip(&self.columns) {
            let own = width_of(cell);
            let is_number = column.starts_with('>');
            let before = if is_number { width.saturating_sub(own) } else { 0 };
            let parts = if own > *width { wrapped(cell, *width) } else { vec![cell] };
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                if end > 0 && end + BETWEEN.len() > start {
                    line.push('\n');
                    end = 0;
                }
                line.extend(std::iter::repeat_n(' ', start - end + before));
                line.push_str(part);
                end = start + before + width_of(part);
            }
            start += width + BETWEEN.len();
        }
    }
}

/// Breaks a text between its words, so that no part is longer than a width unless it is one word.
fn wrapped(text: &str, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    // Where the part begins, how many characters of it were read, and the blank at which it can end: where
    // it is, and how many characters are before it.
    let (mut start, mut read, mut blank) = (0, 0, None);
    for (place, character) in text.char_indices() {
        if place < start {
            continue;
        }
        if character == ' ' && (read <= width || blank.is_none()) {
            blank = Some((place, read));
        }
        if read >= width
            && let Some((end, before)) = blank.take()
        {
            let (part, rest) = text.split_at(end);
            parts.push(part.get(start..).unwrap_or_default());
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            start = end + blanks;
            read = if start > place { 0 } else { read - before - blanks + 1 };
        } else {
            read += 1;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Breaks a text that begins so far from the left edge, so that it fits into the width of the terminal.
pub(crate) fn within_terminal(text: &str, indent: usize) -> String {
    let Some(width) = terminal_width() else { return text.to_owned() };
    let parts = wrapped(text, width.saturating_sub(indent).max(LEAST));
    parts.join(&format!("\n{:indent$}", ""))
}

/// Adds a heading, with an empty line before all but the first.
pub(crate) fn heading(text: &mut String, title: &str) {
    let (space, head) = (if text.is_empty() { "" } else { "\n" }, style::HEAD);
    let _ = writeln!(text, "{space}{head}{title}{head:#}");
}

fn name_of(column: &'static str) -> &'static str {
    column.trim_start_matches('>')
}

fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        let widths = self.widths_within(terminal_width());
        if self.has_head && !self.ends.is_empty() {
            self.push_line(&mut line, &widths, self.columns.iter().map(|column| name_of(column)));
            writeln!(f, "{}{line}{:#}", style::HEAD, style::HEAD)?;
        }
        for cells in self.each_row() {
            line.clear();
            self.push_line(&mut line, &widths, cells);
            line.push('\n');
            f.write_str(&line)?;
        }
        Ok(())
    }
}

/// Writes how many there are of something.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(&["name", ">size"]).without_head();
        table.push(&[&"a", &10]);
        table.push(&[&"long", &7]);
        assert_eq!(table.to_string(), "a     10\nlong   7\n");
    }

    #[test]
    fn where_there_is_no_place_a_long_cell_has_a_line_for_itself() {
        let mut table = Table::new(&["key", "value", "from"]);
        table.push(&[&"color", &"auto", &"default"]);
        table.push(&[&"cache", &"/a/very/long/path/to/a/directory", &"default"]);
        let widths = table.widths_within(Some(34));
        assert_eq!(widths, [5, 18, 7]);
        let mut line = String::new();
        for cells in
            [["color", "auto", "default"], ["cache", "/a/very/long/path/to/a/directory", "x"]]
        {
            table.push_line(&mut line, &widths, cells.into_iter());
            line.push('\n');
        }
        let expected = "color  auto                default\n\
                        cache  /a/very/long/path/to/a/directory\n                           x\n";
        assert_eq!(line, expected);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("/a/long/path (of one)", 8), ["/a/long/path", "(of one)"]);
        assert_eq!(wrapped("one two", 7), ["one two"]);
        assert_eq!(wrapped("one two   three", 8), ["one two ", "three"]);
        assert_eq!(wrapped("aa  /a/long/path  b", 3), ["aa ", "/a/long/path", "b"]);
        assert_eq!(wrapped("äö ü ß", 4), ["äö ü", "ß"]);
        assert_eq!(wrapped("one two ", 7), ["one two", ""]);
    }

    #[test]
    fn a_very_long_cell_is_broken_in_one_pass() {
        for text in ["ab cde f ".repeat(200_000 / 9), "é".repeat(100_000), "é ".repeat(70_000)] {
            let parts = wrapped(&text, 16);
            let is_word = |part: &&str| !part.contains(' ');
            assert!(parts.iter().all(|part| width_of(part) <= 16 || is_word(part)));
            let letters = |text: &str| text.chars().filter(|one| *one != ' ').count();
            assert_eq!(parts.iter().map(|part| letters(part)).sum::<usize>(), letters(&text));
        }
    }
}
