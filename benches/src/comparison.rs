// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of comparisons: one command over another, and one minus another.

use crate::measure::{Candidate, NotMeasured, Pairs, Rounds, alternate};
use crate::report::Table;
use crate::statistics::Summary;

/// Compares commands and collects the rows of one table.
pub(crate) struct Comparisons {
    rounds: Rounds,
    kind: Kind,
    table: Table,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ratio,
    Difference,
}

impl Comparisons {
    /// Begins a table of ratios.
    pub(crate) fn ratios(rounds: Rounds) -> Self {
        let header = [
            "command",
            "over",
            "ratio [quartiles]",
            "of minima",
            "target",
            "reached",
            "command, ms: min / median",
            "over, ms: min / median",
            "pairs",
        ];
        Self { rounds, kind: Kind::Ratio, table: Table::new(&header) }
    }

    /// Begins a table of differences.
    pub(crate) fn differences(rounds: Rounds) -> Self {
        let header = [
            "command",
            "minus",
            "difference, ms [quartiles]",
            "of minima",
            "target",
            "reached",
            "command, ms: min / median",
            "minus, ms: min / median",
            "pairs",
        ];
        Self { rounds, kind: Kind::Difference, table: Table::new(&header) }
    }

    /// Runs two commands in turn and adds a row; what the first may cost at most
    /// stands beside it. Returns the ratio, or the difference.
    pub(crate) fn compare(
        &mut self,
        mut first: Candidate,
        mut second: Candidate,
        target: Option<f64>,
    ) -> Option<Summary> {
        let pairs = alternate(&mut first, &mut second, self.rounds);
        self.add((first.name, second.name), pairs, target)
    }

    /// Adds a row of two commands that were run in turn.
    pub(crate) fn add(
        &mut self,
        (first, second): (String, String),
        pairs: Result<Pairs, NotMeasured>,
        target: Option<f64>,
    ) -> Option<Summary> {
        let figures = pairs.and_then(|pairs| cells(self.kind, &pairs, target));
        let mut row = vec![first, second];
        let summary = match figures {
            Ok((summary, figures)) => {
                row.extend(figures);
                Some(summary)
            }
            Err(reason) => {
                row.push(not_measured(&reason));
                None
            }
        };
        self.table.push(row);
        summary
    }

    /// Returns the table.
    pub(crate) fn table(self) -> Table {
        self.table
    }
}

/// The ratio of pairs, and the cells of its row: the ratio, that of the minima, the target, whether
/// it is reached, both times, and the number of pairs.
pub(crate) fn cells_of_ratio(
    pairs: &Pairs,
    target: Option<f64>,
) -> Result<(Summary, Vec<String>), NotMeasured> {
    cells(Kind::Ratio, pairs, target)
}

fn cells(
    kind: Kind,
    pairs: &Pairs,
    target: Option<f64>,
) -> Result<(Summary, Vec<String>), NotMeasured> {
    let no_pairs = || "no pairs".to_owned();
    let first = pairs.first().ok_or_else(no_pairs)?;
    let second = pairs.second().ok_or_else(no_pairs)?;
    let (summary, of_minima) = match kind {
        Kind::Ratio => (pairs.ratio(), first.minimum / second.minimum),
        Kind::Difference => (pairs.difference(), first.minimum - second.minimum),
    };
    let summary = summary.ok_or_else(no_pairs)?;
    let cells = vec![
        format!(
            "**{:.2}** [{:.2}, {:.2}]",
            summary.median, summary.lower_quartile, summary.upper_quartile
        ),
        format!("{of_minima:.2}"),
        target.map_or(String::new(), |target| format!("≤ {target:.2}")),
        target.map_or("", |target| verdict(summary, target)).to_owned(),
        times(first),
        times(second),
        pairs.count().to_string(),
    ];
    Ok((summary, cells))
}

/// Says whether a target was reached, and not more than the figures allow.
pub(crate) fn verdict(summary: Summary, target: f64) -> &'static str {
    if summary.upper_quartile <= target {
        "yes"
    } else if summary.median <= target {
        "yes, narrowly"
    } else if summary.lower_quartile <= target {
        "no, narrowly"
    } else {
        "no"
    }
}

pub(crate) fn not_measured(reason: &str) -> String {
    format!("not measured: {}", reason.replace('|', "/"))
}

fn times(summary: Summary) -> String {
    format!("{:.2} / {:.2}", summary.minimum, summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: Summary =
        Summary { minimum: 1.0, lower_quartile: 1.2, median: 1.5, upper_quartile: 1.9 };

    #[test]
    fn a_target_that_most_pairs_meet_is_reached() {
        assert_eq!(verdict(SUMMARY, 2.0), "yes");
    }

    #[test]
    fn a_target_between_median_and_quartile_is_a_close_call() {
        assert_eq!(verdict(SUMMARY, 1.6), "yes, narrowly");
    }

    #[test]
    fn a_target_below_most_pairs_is_missed() {
        assert_eq!(verdict(SUMMARY, 1.1), "no");
    }
}
