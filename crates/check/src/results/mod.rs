// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The newest results of an image, from reports of checks or from signed statements, and the page with them.
//! Pure, but for [`read_rows`].

mod page;
mod row;
mod test_page;

use cabane_evidence::{Evidence, Host, LeftOut, Measured, Outcome};
use cabane_label::Digest;
use jiff::Timestamp;
use serde::Serialize;

use crate::outcome::{CheckReport, CheckResult};

pub use page::results_page;
pub use row::{Better, Ratio, Row, RowAnswer, RowDescription, read_rows, rows};

/// The newest result of each test of an image.
#[derive(Clone, Debug)]
pub struct Results {
    /// The image.
    pub image: String,
    /// Its sha256.
    pub digest: Digest,
    /// The tests, in the order of the newest run.
    pub tests: Vec<TestResult>,
    /// The machines, each once.
    pub hosts: Vec<Host>,
    /// When the first run began, as far as it is known.
    pub started: Option<Timestamp>,
    /// When the last run ended.
    pub finished: Option<Timestamp>,
    /// The statements from which the results are, by their sha256; none without statements.
    pub statements: Vec<Digest>,
}

/// The result of a test.
#[derive(Clone, Debug, Serialize)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// What came of it; `None` where it measured something, and no statement says whether it passed.
    pub outcome: Option<Outcome>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it took, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// When its run ended.
    pub finished: Option<Timestamp>,
    /// What it measured.
    pub figures: Vec<Measured>,
    /// What it did not measure.
    pub unmeasured: Vec<LeftOut>,
}

impl Results {
    /// Takes the newest result of each check from the reports of one image, the oldest first; `None` without
    /// a report.
    #[must_use]
    pub fn of_reports(reports: &[&CheckReport]) -> Option<Self> {
        let newest = reports.last()?;
        let name = newest.label.as_ref().map_or_else(|| newest.image.clone(), ToString::to_string);
        let mut results = Self::new(name, &newest.digest);
        for report in reports.iter().rev() {
            results.add_run(&report.host, Some(report.started), Some(report.finished));
            let tests = report.checks.iter().map(|check| TestResult::of(check, report.finished));
            for test in tests {
                results.add(test);
            }
        }
        Some(results)
    }

    /// Takes the newest result of each test from statements, the newest first.
    #[must_use]
    pub fn of_evidence(image: &str, digest: &Digest, evidence: &[&Evidence]) -> Self {
        let mut results = Self::new(image.to_owned(), digest);
        let mut untested = Vec::new();
        for one in evidence {
            let details = &one.details;
            results.add_run(&details.host, details.started, details.finished);
            results.statements.push(one.id.clone());
            for test in tests_of(one) {
                // A run of some tests says nothing about the others.
                if details.is_partial && test.outcome == Some(Outcome::NotTested) {
                    untested.push(test);
                } else {
                    results.add(test);
                }
            }
        }
        for test in untested {
            results.add(test);
        }
        results
    }

    /// Returns the outcome of all.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of_all(self.tests.iter().filter_map(|test| test.outcome))
    }

    fn new(image: String, digest: &Digest) -> Self {
        Self {
            image,
            digest: digest.clone(),
            tests: Vec::new(),
            hosts: Vec::new(),
            started: None,
            finished: None,
            statements: Vec::new(),
        }
    }

    fn add_run(&mut self, host: &Host, started: Option<Timestamp>, finished: Option<Timestamp>) {
        if !self.hosts.contains(host) {
            self.hosts.push(host.clone());
        }
        self.started = self.started.into_iter().chain(started).min();
        self.finished = self.finished.into_iter().chain(finished).max();
    }

    /// Adds a test unless a newer result of it is there.
    fn add(&mut self, test: TestResult) {
        if self.tests.iter().all(|known| known.name != test.name) {
            self.tests.push(test);
        }
    }
}

impl TestResult {
    fn of(check: &CheckResult, finished: Timestamp) -> Self {
        Self {
            name: check.name.clone(),
            outcome: Some(check.outcome),
            reason: check.reason.clone(),
            seconds: Some(check.seconds),
            finished: Some(finished),
            figures: check.figures.clone(),
            unmeasured: check.unmeasured.clone(),
        }
    }
}

/// Returns the tests of a statement: those with a result, and those that measured something.
fn tests_of(one: &Evidence) -> Vec<TestResult> {
    let details = &one.details;
    let mut names: Vec<(&str, Option<Outcome>)> = Vec::new();
    let lists = [("passedTests", Outcome::Passed), ("failedTests", Outcome::Failed)];
    for (list, outcome) in lists {
        let tests = one.statement.predicate.get(list).and_then(|list| list.as_array());
        let tests = tests.into_iter().flatten().filter_map(|name| name.as_str());
        names.extend(tests.map(|name| (name, Some(outcome))));
    }
    names.extend(details.errors.iter().map(|error| (error.test.as_str(), Some(error.outcome))));
    let untested = details.not_tested.iter();
    names.extend(untested.map(|name| (name.as_str(), Some(Outcome::NotTested))));
    names.extend(details.performance.iter().map(|one| (one.test.as_str(), None)));
    names.extend(details.unmeasured.iter().map(|one| (one.test.as_str(), None)));
    let mut tests: Vec<TestResult> = Vec::new();
    for (name, outcome) in names {
        if tests.iter().any(|known| known.name == name) {
            continue;
        }
        let reason = details.errors.iter().find(|error| error.test == name);
        let figures = details.performance.iter().filter(|one| one.test == name);
        let unmeasured = details.unmeasured.iter().filter(|one| one.test == name);
        tests.push(TestResult {
            name: name.to_owned(),
            outcome,
            reason: reason.map(|error| error.message.clone()),
            seconds: None,
            finished: details.finished,
            figures: figures.map(|one| one.measured.clone()).collect(),
            unmeasured: unmeasured.map(|one| one.left_out.clone()).collect(),
        });
    }
    tests
}
