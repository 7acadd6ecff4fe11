// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The report: sections with tables, as text that is good Markdown, too.

use std::fmt;

use crate::goal::{self, Goal};
use crate::machine::Machine;
use crate::options::Options;

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) sections: Vec<Section>,
}

/// One subject: what was done, the figures, and notes on them.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) method: String,
    pub(crate) tables: Vec<Table>,
    /// Those of the numbers to reach that were measured here.
    pub(crate) goals: Vec<Goal>,
    pub(crate) remarks: Vec<String>,
}

impl Section {
    /// Begins a section without figures.
    pub(crate) fn new(title: &'static str, method: impl Into<String>) -> Self {
        Self {
            title,
            method: method.into(),
            tables: Vec::new(),
            goals: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Says why there are no figures.
    pub(crate) fn not_measured(title: &'static str, reason: &str) -> Self {
        Self::new(title, format!("Not measured: {reason}."))
    }
}

/// Figures in rows and columns.
pub(crate) struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            caption: String::new(),
            header: header.iter().map(|&text| text.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Says what the figures are about.
    pub(crate) fn captioned(self, caption: String) -> Self {
        Self { caption, ..self }
    }

    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }
}

const METHOD: &str = "\
Two commands are compared by running them in turn, A B A B …, in one go and under
ordinary scheduling, after a few pairs that are not counted. A ratio is that of the two
commands of a pair. The tables show its median, with the two quartiles in brackets: half
of all pairs are between them. Times are wall time from before `posix_spawn` until after
the wait, with a pause of 3 ms after each. The median of the ratios is not the ratio of
the medians. The ratio of the minima shows the cost without interference. The median of
the pairs decides whether a target is reached. All files are in the page cache, other
programs on the machine are not stopped, and everything that could not be measured is
listed with the reason.

";

const OTHER_PAGES: &str = "\
[Transfers with registries](performance-registry.md), [containers](performance-containers.md),
[builds with Spack](performance-spack.md), [jobs of Slurm](performance-slurm.md), [the ways to
mount](performance-ways.md), [verified images](performance-verified.md),
[storage](performance-storage.md), and [commands beside
uenv](performance-uenv.md) have pages of their own.
";

const GOALS: &str = "\
The targets of Cabane's design, as far as they are measured here. The sections below have
the figures with quartiles. A ratio is over the command or tool in the text.
";

const QUICK: &str = "This was a quick run: few pairs, small trees.\n\n";

impl Report {
    /// Returns the page for the documentation.
    pub(crate) fn page(&self, machine: &Machine, options: &Options) -> String {
        let (title, target, method) = match options.on_its_own() {
            Some("stack") => ("Performance of builds with Spack", "bench-spack", ""),
            Some("slurm") => ("Performance of jobs with Slurm", "bench-slurm", METHOD),
            Some("ways") => ("Performance of the ways to mount", "bench-ways", METHOD),
            Some("pipeline") => ("Performance of pipelines", "bench-pipeline", METHOD),
            Some("catalogue") => ("Performance of catalogs", "bench-catalogue", ""),
            Some("verified") => ("Performance of verified images", "bench-verified", METHOD),
            Some("storage") => ("Performance of storage", "bench-storage", METHOD),
            Some("uenv") => ("Performance beside uenv", "bench-uenv", METHOD),
            Some("containers") => ("Performance of containers", "bench-containers", METHOD),
            Some(_) => ("Performance with registries", "bench-registry", METHOD),
            None => ("Performance", "bench", METHOD),
        };
        let others = match options.on_its_own() {
            Some(_) => "",
            None => OTHER_PAGES,
        };
        let head = format!(
            "<!-- SPDX-FileCopyrightText: The Cabane developers -->\n\
             <!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
             <!-- Made by `make {target}`; do not edit. -->\n\n\
             # {title}\n\n\
             This page is made by `make {target}`; `benches/README.md` says how to run it.\n{others}\n"
        );
        let quick = if options.quick { QUICK } else { "" };
        let load = &machine.load_after;
        let mut page = format!("{head}{method}{quick}{machine}- load after: {load}\n");
        page += &format!("\n{}", self.goals());
        for section in &self.sections {
            page += &section.to_string();
        }
        page
    }

    /// Returns what was to be reached, and what was.
    pub(crate) fn goals(&self) -> String {
        let goals = self.sections.iter().flat_map(|section| &section.goals);
        format!("## Numbers to reach\n\n{GOALS}\n{}", goal::table(goals))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## {}\n\n{}", self.title, wrapped(&self.method, ""))?;
        for table in &self.tables {
            writeln!(f, "\n{table}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "- {}", wrapped(remark, "  "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.caption.is_empty() {
            writeln!(f, "{}:\n", self.caption)?;
        }
        let widths: Vec<usize> = (0..self.header.len()).map(|column| self.width(column)).collect();
        write_row(f, &self.header, &widths)?;
        for width in &widths {
            write!(f, "|{}", "-".repeat(width + 2))?;
        }
        writeln!(f, "|")?;
        for row in &self.rows {
            write_row(f, row, &widths)?;
        }
        Ok(())
    }
}

impl Table {
    fn width(&self, column: usize) -> usize {
        let rows = std::iter::once(&self.header).chain(&self.rows);
        let cells = rows.filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

/// Writes the cells of a row; those that a short row lacks are empty.
fn write_row(f: &mut fmt::Formatter<'_>, row: &[String], widths: &[usize]) -> fmt::Result {
    for (column, &width) in widths.iter().enumerate() {
        let cell = row.get(column).map_or("", String::as_str);
        write!(f, "| {cell:width$} ")?;
    }
    writeln!(f, "|")
}

/// Breaks a text into lines that are not too long to read.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut length = indent.len();
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if length > indent.len() && length + 1 + width > 88 {
            lines = lines + "\n" + indent;
            length = indent.len();
        } else if !lines.is_empty() {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_table_stand_below_each_other() {
        let mut table = Table::new(&["what", "ms"]);
        table.push(vec!["a long name".into(), "1".into()]);
        table.push(vec!["µ".into()]);
        let text = "| what        | ms |\n\
                    |-------------|----|\n\
                    | a long name | 1  |\n\
                    | µ           |    |\n";
        assert_eq!(table.to_string(), text);
    }

    #[test]
    fn a_long_remark_is_broken_and_indented() {
        let remark = "word ".repeat(30);
        let lines = wrapped(&remark, "  ");
        assert_eq!(lines.lines().nth(1), Some(&*format!("  {}", "word ".repeat(13).trim())));
    }
}
