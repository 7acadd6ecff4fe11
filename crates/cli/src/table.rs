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
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    has_head: bool,
}

impl Table {
    /// Starts a table.
    pub(crate) fn new(columns: &[(&'static str, Align)], has_head: bool) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            has_head,
        }
    }

    /// Adds a row with a cell for every column.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|(name, _)| if self.has_head { name.len() } else { 0 })
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn line<'a>(&self, widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.zip(widths).zip(&self.columns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let _ = match align {
                Align::Left => write!(line, "{cell:<width$}"),
                Align::Right => write!(line, "{cell:>width$}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        if self.has_head && !self.rows.is_empty() {
            let head = self.line(&widths, self.columns.iter().map(|(name, _)| *name));
            writeln!(f, "{}{head}{:#}", style::HEAD, style::HEAD)?;
        }
        for row in &self.rows {
            writeln!(f, "{}", self.line(&widths, row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

/// Returns a size for people, in units of 1,000 like the labels of disks.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit + 1 < UNITS.len() && bytes / scale >= 1_000 {
        scale *= 1_000;
        unit += 1;
    }
    let (whole, tenth) = (bytes / scale, bytes % scale * 10 / scale);
    if unit == 0 || whole >= 10 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenth} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right)], false);
        table.push(vec!["a".to_owned(), "10".to_owned()]);
        table.push(vec!["long".to_owned(), "7".to_owned()]);
        assert_eq!(table.to_string(), "a     10\nlong   7\n");
    }

    #[test]
    fn sizes_have_two_digits_at_the_most_significant_end() {
        let sizes = [999, 1_000, 9_990, 10_000, 87_498_752, 5_800_000_000].map(size);
        assert_eq!(
            sizes,
            ["999 B", "1.0 kB", "9.9 kB", "10 kB", "87 MB", "5.8 GB"]
        );
    }
}
