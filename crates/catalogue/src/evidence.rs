// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site shows of the statements about an image.

use std::path::Path;

use cabane_evidence::{Evidence, Outcome, Provenance, RECIPE, Standing, Statement};
use cabane_label::Digest;

use crate::input::{BuiltImage, Figure, ImageEvidence, TestResult};

/// How many results of an image are shown, how many tests of one that did not pass, and how many figures.
const MOST_RESULTS: usize = 20;
const MOST_FAILED: usize = 100;
const MOST_FIGURES: usize = 200;

/// Takes from statements what a site shows. What does not count is counted only: strangers may have
/// written it.
pub(crate) fn evidence_of(mut judged: Vec<Evidence>) -> ImageEvidence {
    judged.sort_by_key(|one| std::cmp::Reverse(one.details.finished));
    let mut evidence = ImageEvidence::default();
    for one in &judged {
        let Standing::Counts(file) = &one.standing else {
            evidence.ignored += 1;
            continue;
        };
        let key = name_of(file);
        if let Some(outcome) = one.outcome {
            if evidence.results.len() < MOST_RESULTS {
                evidence.results.push(result_of(one, outcome, key));
            }
        } else if let Some(provenance) = Provenance::of(&one.statement) {
            evidence.built.push(built_of(&provenance, key));
        }
    }
    evidence
}

/// Returns the name of a file. Its directory is not for the readers of the site.
fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn result_of(one: &Evidence, outcome: Outcome, key: String) -> TestResult {
    let details = &one.details;
    let runner = format!("{} {}", details.runner.name, details.runner.version);
    let names = |key: &str| names_in(&one.statement, key);
    let reason = |name: &str| {
        let error = details.errors.iter().find(|error| error.test == name);
        error.map(|error| error.message.clone()).unwrap_or_default()
    };
    let mut failed: Vec<(String, String)> =
        names("failedTests").into_iter().map(|name| (name.clone(), reason(&name))).collect();
    for error in &details.errors {
        if !failed.iter().any(|(name, _)| *name == error.test) {
            failed.push((error.test.clone(), error.message.clone()));
        }
    }
    failed.truncate(MOST_FAILED);
    let figures = details.performance.iter().take(MOST_FIGURES);
    TestResult {
        system: details.system.clone(),
        outcome,
        finished: details.finished,
        generation: details.generation.clone(),
        runner: runner.trim().to_owned(),
        passed: names("passedTests").len(),
        failed,
        is_partial: details.is_partial,
        figures: figures
            .map(|one| Figure { test: one.test.clone(), measured: one.measured.clone() })
            .collect(),
        key,
    }
}

/// Returns the names of tests that a statement has under a key.
fn names_in(statement: &Statement, key: &str) -> Vec<String> {
    let names = statement.predicate.get(key).and_then(|names| names.as_array());
    let names = names.into_iter().flatten().filter_map(|name| name.as_str());
    names.map(str::to_owned).collect()
}

fn built_of(provenance: &Provenance, key: String) -> BuiltImage {
    let recipe = provenance.recipe_commit();
    let others = provenance.build_definition.resolved_dependencies.iter();
    let others = others.filter(|one| one.name.as_deref() != Some(RECIPE));
    let digests = others.filter_map(|one| one.digest.get("sha256")?.parse::<Digest>().ok());
    BuiltImage {
        recipe: recipe.map(|(address, commit)| (address.to_owned(), commit.to_owned())),
        finished: provenance.run_details.metadata.finished_on,
        bases: digests.collect(),
        key,
    }
}
