// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of text.

use std::fmt::{self, Write as _};

use crate::printer::style;

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

    fn push_line<'a>(&self, line: &mut String, cells: impl Iterator<Item = &'a str>) {
        for ((cell, width), column) in cells.zip(&self.widths).zip(&self.columns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let head = if self.has_head { name_of(column).len() } else { 0 };
            let blanks = head.max(*width).saturating_sub(width_of(cell));
            let before = if column.starts_with('>') { blanks } else { 0 };
            line.extend(std::iter::repeat_n(' ', before));
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', blanks - before));
        }
        line.truncate(line.trim_end_matches(' ').len());
    }
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
        if self.has_head && !self.ends.is_empty() {
            self.push_line(&mut line, self.columns.iter().map(|column| name_of(column)));
            writeln!(f, "{}{line}{:#}", style::HEAD, style::HEAD)?;
        }
        let mut start = 0;
        for row in self.ends.chunks(self.columns.len()) {
            let cells = row.iter().map(|&end| {
                let cell = self.text.get(start..end).unwrap_or_default();
                start = end;
                cell
            });
            line.clear();
            self.push_line(&mut line, cells);
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
}
