// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of text.

use std::fmt::{self, Write as _};

use crate::printer::style;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// At the left.
    Left,
    /// At the right, for numbers.
    Right,
}

/// A table with a head.
///
/// All cells are in one text: a list of ten thousand images would spend its time on
/// as many small ones.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    text: String,
    /// Where each cell ends in the text.
    ends: Vec<usize>,
    widths: Vec<usize>,
    has_head: bool,
}

impl Table {
    /// Starts a table.
    pub(crate) fn new(columns: &[(&'static str, Align)], has_head: bool) -> Self {
        let width = |(name, _): &(&str, Align)| if has_head { name.len() } else { 0 };
        Self {
            columns: columns.to_vec(),
            text: String::new(),
            ends: Vec::new(),
            widths: columns.iter().map(width).collect(),
            has_head,
        }
    }

    /// Adds a row with a cell for every column.
    pub(crate) fn push<const N: usize>(&mut self, row: [&dyn fmt::Display; N]) {
        self.push_cells(&row);
    }

    /// Adds a row with a cell for every column, where their number is not known before.
    pub(crate) fn push_cells(&mut self, row: &[&dyn fmt::Display]) {
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
    pub(crate) fn add_column(&mut self, name: &'static str, align: Align) {
        self.columns.push((name, align));
        self.widths.push(if self.has_head { name.len() } else { 0 });
    }

    fn push_line<'a>(&self, line: &mut String, cells: impl Iterator<Item = &'a str>) {
        for ((cell, width), (_, align)) in cells.zip(&self.widths).zip(&self.columns) {
            if !line.is_empty() && !line.ends_with('\n') {
                line.push_str("  ");
            }
            let blanks = width - width_of(cell).min(*width);
            match align {
                Align::Left => {
                    line.push_str(cell);
                    line.extend(std::iter::repeat_n(' ', blanks));
                }
                Align::Right => {
                    line.extend(std::iter::repeat_n(' ', blanks));
                    line.push_str(cell);
                }
            }
        }
        line.truncate(line.trim_end_matches(' ').len());
    }
}

fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = String::with_capacity(self.text.len() * 2);
        if self.has_head && !self.ends.is_empty() {
            self.push_line(&mut lines, self.columns.iter().map(|(name, _)| *name));
            writeln!(f, "{}{lines}{:#}", style::HEAD, style::HEAD)?;
            lines.clear();
        }
        let mut start = 0;
        for row in self.ends.chunks(self.columns.len()) {
            let cells = row.iter().map(|&end| {
                let cell = self.text.get(start..end).unwrap_or_default();
                start = end;
                cell
            });
            self.push_line(&mut lines, cells);
            lines.push('\n');
        }
        f.write_str(&lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right)], false);
        table.push([&"a", &10]);
        table.push([&"long", &7]);
        assert_eq!(table.to_string(), "a     10\nlong   7\n");
    }
}
