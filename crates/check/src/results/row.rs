// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Comparisons of two ways of the same work, with a control: what a suite measured, and what it says about
//! it. Pure, but for [`read_rows`].
//!
//! The figure `ROW` is the median ratio of ours to the other way. `ROW_low` and `ROW_high` are its quartiles, and
//! `ROW_control_low` and `ROW_control_high` those of the other way beside itself. A difference counts only
//! where both ranges have nothing in common.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use cabane_evidence::Measured;
use cabane_label::shown;
use cabane_report::{IoContext, Kind, Report, Result};
use serde::{Deserialize, Serialize};

use super::{Results, TestResult};

/// The directory of a suite with the descriptions.
const DIRECTORY: &str = "rows";
/// The largest file with descriptions, in bytes.
const MOST: u64 = 4 * 1024 * 1024;
/// Ratios outside of these are no measurements.
const POSSIBLE: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// What a suite says about a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowDescription {
    /// The name of its figures.
    #[serde(skip_serializing)]
    pub row: String,
    /// The part of the suite.
    #[serde(skip_serializing)]
    pub section: String,
    /// Who claims something: the paper, with the table or figure.
    pub source: String,
    /// What is compared with what.
    pub what: String,
    /// The ratio that the source has.
    #[serde(default)]
    pub claim: Option<f64>,
    /// The claim in the words or numbers of the source.
    #[serde(default)]
    pub claim_text: String,
    /// Which ratios are good.
    pub better: Better,
    /// How far from one a ratio may be that is the same, as a fraction.
    #[serde(default)]
    pub margin: Option<f64>,
    /// The ratio to reach.
    #[serde(default)]
    pub goal: Option<f64>,
    /// How it is measured.
    pub method: String,
    /// What is not comparable with the source, and why.
    #[serde(default)]
    pub not_comparable: String,
}

/// Which ratios are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Those below one.
    Lower,
    /// Those above one.
    Higher,
    /// Those near one.
    Same,
}

/// A measured ratio of ours to the other way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of all rounds.
    pub median: f64,
    /// Its quartiles.
    pub quartiles: (f64, f64),
    /// The quartiles of the other way beside itself.
    pub control: Option<(f64, f64)>,
    /// What ours took.
    pub ours: Option<Measured>,
    /// What the other way took.
    pub other: Option<Measured>,
    /// How many rounds there were.
    pub rounds: Option<f64>,
}

/// A row: what was measured, and what is said about it.
#[derive(Clone, Debug, Serialize)]
pub struct Row<'d> {
    /// The name of its figures.
    #[serde(rename = "row")]
    pub name: String,
    /// The part of the suite, or the test.
    pub section: String,
    /// What the suite says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'d RowDescription>,
    /// What was measured.
    pub ratio: Option<Ratio>,
    /// The answer.
    #[serde(flatten)]
    pub answer: RowAnswer,
}

/// What a ratio says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "answer", content = "reason")]
pub enum RowAnswer {
    /// Ours is better than the other way.
    Better,
    /// Ours is worse.
    Worse,
    /// The ratio is within the margin around one.
    Same,
    /// Both ways differ, and should not, or nothing says which direction is better.
    Different,
    /// The control differs as much.
    NoDifference,
    /// There is no control.
    NoControl,
    /// It was not measured, for a reason.
    LeftOut(String),
    /// No test measured it.
    NotMeasured,
}

impl fmt::Display for RowAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut(reason) => write!(f, "left out: {reason}"),
            Self::NoDifference => f.write_str("no difference: the control shows the same"),
            Self::NoControl => f.write_str("no answer: there is no control"),
            other => f.write_str(other.word()),
        }
    }
}

impl RowAnswer {
    /// Returns the answer without a reason.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Different => "different",
            Self::NoDifference => "no difference",
            Self::NoControl => "no answer",
            Self::LeftOut(_) => "left out",
            Self::NotMeasured => "not measured",
        }
    }
}

impl RowDescription {
    /// Whether a ratio reaches the goal; `None` without a goal.
    #[must_use]
    pub fn reaches_goal(&self, ratio: f64) -> Option<bool> {
        let goal = self.goal?;
        Some(match self.better {
            Better::Lower => ratio <= goal,
            Better::Higher => ratio >= goal,
            Better::Same => (ratio.ln()).abs() <= goal.ln().abs(),
        })
    }
}

/// Reads the descriptions of rows in `rows/*.json` of a suite, in the order of the files; a suite need not
/// have any.
///
/// # Errors
///
/// A file cannot be read, or does not describe rows; two rows have one name.
pub fn read_rows(suite: &Path) -> Result<Vec<RowDescription>> {
    let directory = suite.join(DIRECTORY);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&directory).or_failed(|| format!("read {}", shown(&directory)))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    paths.sort_unstable();
    let mut rows: Vec<RowDescription> = Vec::new();
    for path in paths {
        let mut text = String::new();
        let file = File::open(&path).or_failed(|| format!("open {}", shown(&path)))?;
        file.take(MOST).read_to_string(&mut text).or_failed(|| format!("read {}", shown(&path)))?;
        let more: Vec<RowDescription> = serde_json::from_str(&text).map_err(|error| {
            let message = format!("{} is not a list of rows", shown(&path));
            Report::caused(Kind::BadInput, message, error).hinted(
                "each row needs `row`, `section`, `source`, `what`, `better`, and `method`"
                    .to_owned(),
            )
        })?;
        rows.extend(more);
        let mut names = BTreeSet::new();
        if let Some(double) = rows.iter().find(|row| !names.insert(row.row.as_str())) {
            let name = cabane_label::escape(&double.row);
            let message = format!("{} describes the row `{name}` again", shown(&path));
            return Err(Report::new(Kind::BadInput, message));
        }
    }
    Ok(rows)
}

/// Returns the rows of an image: those that are described, in their order, and then other comparisons.
#[must_use]
pub fn rows<'d>(results: &Results, descriptions: &'d [RowDescription]) -> Vec<Row<'d>> {
    let described = descriptions.iter().map(|description| {
        let name = description.row.as_str();
        let found = results.tests.iter().find_map(|test| Ratio::of(test, name));
        let answer = match &found {
            Some(ratio) => answer(ratio, Some(description.better), description.margin),
            None => reason(results, name).map_or(RowAnswer::NotMeasured, RowAnswer::LeftOut),
        };
        let (name, section) = (name.to_owned(), description.section.clone());
        Row { name, section, description: Some(description), ratio: found, answer }
    });
    let mut all: Vec<Row<'d>> = described.collect();
    for test in &results.tests {
        for figure in &test.figures {
            let name = &figure.variable;
            let ratio = Ratio::of(test, name).filter(|ratio| ratio.control.is_some());
            let Some(ratio) = ratio.filter(|_| all.iter().all(|row| row.name != *name)) else {
                continue;
            };
            let answer = answer(&ratio, None, None);
            let (name, section) = (name.clone(), test.name.clone());
            all.push(Row { name, section, description: None, ratio: Some(ratio), answer });
        }
    }
    all
}

/// Why a row was not measured. A reason can be that of all rows whose names begin alike.
fn reason(results: &Results, name: &str) -> Option<String> {
    let all = results.tests.iter().flat_map(|test| &test.unmeasured);
    let fits = all.filter(|one| {
        let rest = name.strip_prefix(one.figure.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    });
    fits.max_by_key(|one| one.figure.len()).map(|one| one.reason.clone())
}

/// Says what a ratio means. Two equal things have the ratio one, so the range of the control reaches there.
fn answer(ratio: &Ratio, better: Option<Better>, margin: Option<f64>) -> RowAnswer {
    let Some((low, high)) = ratio.control else {
        return RowAnswer::NoControl;
    };
    let (low, high) = (low.min(1.0), high.max(1.0));
    let (from, to) = ratio.quartiles;
    let most = 1.0 + margin.unwrap_or_default().max(0.0);
    let is_same = |number: f64| (1.0 / most..=most).contains(&number);
    let should_be_same = better == Some(Better::Same);
    if should_be_same && is_same(from) && is_same(to) {
        return RowAnswer::Same;
    }
    if from <= high && to >= low {
        return RowAnswer::NoDifference;
    }
    match better {
        Some(Better::Same) if is_same(ratio.median) => RowAnswer::Same,
        Some(Better::Lower) if to < low => RowAnswer::Better,
        Some(Better::Higher) if from > high => RowAnswer::Better,
        Some(Better::Lower | Better::Higher) => RowAnswer::Worse,
        Some(Better::Same) | None => RowAnswer::Different,
    }
}

impl Ratio {
    /// Finds the figures of a row; `None` if they are not all there, or contradict each other.
    fn of(test: &TestResult, name: &str) -> Option<Self> {
        let figure = |end: &str| {
            let is_it = |one: &&Measured| one.variable.strip_prefix(name) == Some(end);
            test.figures.iter().find(is_it)
        };
        let ratio = |end: &str| Some(figure(end)?.value).filter(|value| POSSIBLE.contains(value));
        let range = |low: &str, high: &str| {
            Some((ratio(low)?, ratio(high)?)).filter(|(low, high)| low <= high)
        };
        let median = ratio("")?;
        let quartiles = range("_low", "_high")?;
        let is_between = quartiles.0 <= median && median <= quartiles.1;
        is_between.then(|| Self {
            median,
            quartiles,
            control: range("_control_low", "_control_high"),
            ours: figure("_ours").cloned(),
            other: figure("_other").cloned(),
            rounds: figure("_rounds").map(|one| one.value),
        })
    }
}

/// The ends of the names of figures that belong to a row.
const ENDS: [&str; 8] =
    ["", "_low", "_high", "_control_low", "_control_high", "_ours", "_other", "_rounds"];

impl Row<'_> {
    /// Whether a figure is part of the row.
    #[must_use]
    pub fn has(&self, variable: &str) -> bool {
        let rest = variable.strip_prefix(self.name.as_str()).filter(|_| self.ratio.is_some());
        rest.is_some_and(|rest| ENDS.contains(&rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(quartiles: (f64, f64), control: (f64, f64)) -> Ratio {
        let median = f64::midpoint(quartiles.0, quartiles.1);
        let control = Some(control);
        Ratio { median, quartiles, control, ours: None, other: None, rounds: None }
    }

    fn said(quartiles: (f64, f64), control: (f64, f64), better: Better) -> RowAnswer {
        answer(&ratio(quartiles, control), Some(better), Some(0.02))
    }

    #[test]
    fn a_difference_that_the_control_also_shows_is_none() {
        let quiet = (0.99, 1.01);
        assert_eq!(said((0.80, 0.90), quiet, Better::Lower), RowAnswer::Better);
        assert_eq!(said((0.80, 0.90), quiet, Better::Higher), RowAnswer::Worse);
        assert_eq!(said((0.80, 0.90), (0.85, 1.2), Better::Lower), RowAnswer::NoDifference);
        assert_eq!(said((1.05, 1.10), quiet, Better::Lower), RowAnswer::Worse);
        // The control is not around one: ours is not better than a thing beside itself.
        assert_eq!(said((0.97, 1.02), (0.90, 0.95), Better::Lower), RowAnswer::NoDifference);
        let without = Ratio { control: None, ..ratio((0.5, 0.6), quiet) };
        assert_eq!(answer(&without, Some(Better::Lower), None), RowAnswer::NoControl);
        assert_eq!(answer(&ratio((0.5, 0.6), quiet), None, None), RowAnswer::Different);
    }

    #[test]
    fn same_needs_a_narrow_range_and_no_wide_control_helps() {
        assert_eq!(said((0.99, 1.015), (0.5, 2.0), Better::Same), RowAnswer::Same);
        assert_eq!(said((0.95, 1.10), (0.9, 1.2), Better::Same), RowAnswer::NoDifference);
        assert_eq!(said((1.05, 1.10), (0.99, 1.01), Better::Same), RowAnswer::Different);
        assert_eq!(said((1.012, 1.025), (0.999, 1.001), Better::Same), RowAnswer::Same);
    }

    #[test]
    fn counts_without_noise_are_exact() {
        assert_eq!(said((0.4, 0.4), (1.0, 1.0), Better::Lower), RowAnswer::Better);
        assert_eq!(said((1.0, 1.0), (1.0, 1.0), Better::Lower), RowAnswer::NoDifference);
    }
}
