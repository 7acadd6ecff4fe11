// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The report of checks as a statement that can be signed.

use cabane_evidence::{
    Details, LeftOut, Measured, Outcome, Performance, Runner, Statement, TestError, Unmeasured,
};
use cabane_label::Digest;

use crate::outcome::CheckReport;

/// Turns the report of checks into a statement about the image; `manifest` is the sha256 of its manifest.
#[must_use]
pub fn test_statement(
    report: &CheckReport,
    manifest: Option<&Digest>,
    generation: Option<&str>,
) -> Statement {
    let names = |outcome: Outcome| -> Vec<&str> {
        let fits = report.checks.iter().filter(|one| one.outcome == outcome);
        fits.map(|one| one.name.as_str()).collect()
    };
    let is_wrong = |outcome| matches!(outcome, Outcome::Failed | Outcome::Error);
    let errors = report.checks.iter().filter(|one| is_wrong(one.outcome)).map(|one| TestError {
        test: one.name.clone(),
        outcome: one.outcome,
        message: one.reason.clone().unwrap_or_default(),
    });
    let performance = report.checks.iter().flat_map(|check| {
        let of_check = |measured: &Measured| Performance {
            test: check.name.clone(),
            measured: measured.clone(),
        };
        check.figures.iter().map(of_check)
    });
    let unmeasured = report.checks.iter().flat_map(|check| {
        let of_check = |left_out: &LeftOut| Unmeasured {
            test: check.name.clone(),
            left_out: left_out.clone(),
        };
        check.unmeasured.iter().map(of_check)
    });
    let left_out = report.left_out.iter().map(String::as_str);
    let not_tested = names(Outcome::NotTested).into_iter().chain(left_out);
    let details = Details {
        outcome: Some(report.outcome),
        system: report.host.system.clone(),
        uarch: report.label.as_ref().map(|label| label.uarch.to_string()),
        started: Some(report.started),
        finished: Some(report.finished),
        runner: Runner { name: "cabane".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        is_partial: !report.left_out.is_empty(),
        errors: errors.collect(),
        not_tested: not_tested.map(str::to_owned).collect(),
        host: report.host.clone(),
        generation: generation.map(str::to_owned),
        performance: performance.collect(),
        unmeasured: unmeasured.collect(),
    };
    let name = report.label.as_ref().map_or_else(|| report.image.clone(), ToString::to_string);
    let results = (&*names(Outcome::Passed), &*names(Outcome::Failed));
    let subject = (&*name, &report.digest, manifest);
    Statement::of_checks(subject, results, &report.suites, &details)
}
