// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Statements of in-toto, version 1, about images.
//!
//! Formats: <https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md> and
//! `spec/predicates/test-result.md` there. That predicate knows passed and failed only. What ended with an
//! error or tested nothing is a statement of another type, so that no verifier takes one for the other.

use std::collections::BTreeMap;

use cabane_label::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::outcome::{Host, LeftOut, Measured, Outcome};
use crate::provenance::Provenance;

/// The type of every statement.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The results of tests.
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// An attempt to test that says nothing about the image.
pub const ATTEMPT: &str = "https://cabane.dev/attestation/test-attempt/v1";
/// The key of what the predicate has no key for.
const DETAILS: &str = "https://cabane.dev/evidence/v1";

/// A statement about an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    /// What it is about: the image, and its manifest where that is known.
    pub subject: Vec<StatementSubject>,
    /// What kind of statement it is: a URI.
    pub predicate_type: String,
    /// What it says.
    pub predicate: Value,
}

/// What a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementSubject {
    /// Its label, or another name.
    pub name: String,
    /// Its digests, by algorithm.
    pub digest: BTreeMap<String, String>,
}

/// What is said of a run of checks beside its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The outcome of all checks.
    pub outcome: Option<Outcome>,
    /// The system on which they ran, if its name is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The microarchitecture of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uarch: Option<String>,
    /// When the first began.
    pub started: Option<Timestamp>,
    /// When the last ended.
    pub finished: Option<Timestamp>,
    /// What ran them.
    #[serde(default)]
    pub runner: Runner,
    /// Those that did not pass, and those that could not run, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<TestError>,
    /// Whether some checks of the image were left out.
    #[serde(default, rename = "partial", skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// The names of those that had nothing to test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tested: Vec<String>,
    /// The machine.
    #[serde(default)]
    pub host: Host,
    /// The word that the site changes at a maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// What was measured, by check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub performance: Vec<Performance>,
    /// What was not measured, by check, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<Unmeasured>,
}

/// What ran the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Its name: `cabane`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A check that failed or could not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestError {
    /// The check.
    pub test: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why.
    pub message: String,
}

/// What a run of checks was made with, as in-toto describes resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Where it comes from: `git+https://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its digests, by algorithm: `gitCommit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
    /// What else is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Value>,
}

/// The annotation of what a suite consists of: the sum of its files and options.
const CONTENT: &str = "content";

impl Configuration {
    /// Returns the sum of the files and options of a suite, if it is known.
    #[must_use]
    pub fn content(&self) -> Option<&str> {
        self.annotations.get(CONTENT)?.as_str()
    }

    /// Adds the sum of the files and options of a suite.
    pub fn set_content(&mut self, content: &Digest) {
        self.annotations.insert(CONTENT.to_owned(), content.as_str().into());
    }
}

/// A number that a check measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// The check.
    pub test: String,
    /// The number.
    #[serde(flatten)]
    pub measured: Measured,
}

/// A figure that a check did not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The check.
    pub test: String,
    /// The figure, and why there is none.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

impl Statement {
    /// Makes a statement about an image; `manifest` is the sha256 of its manifest in a registry.
    pub fn new(
        (name, image, manifest): (&str, &Digest, Option<&Digest>),
        predicate_type: &str,
        predicate: Value,
    ) -> Self {
        let subject = |name: String, digest: &Digest| StatementSubject {
            name,
            digest: [("sha256".to_owned(), digest.to_string())].into(),
        };
        let of_manifest = manifest.map(|manifest| subject(format!("{name} (manifest)"), manifest));
        Self {
            kind: STATEMENT.to_owned(),
            subject: [subject(name.to_owned(), image)].into_iter().chain(of_manifest).collect(),
            predicate_type: predicate_type.to_owned(),
            predicate,
        }
    }

    /// Makes a statement about the checks of an image: `passed` and `failed` are the names of checks.
    #[must_use]
    pub fn of_checks(
        subject: (&str, &Digest, Option<&Digest>),
        (passed, failed): (&[&str], &[&str]),
        configuration: &[Configuration],
        details: &Details,
    ) -> Self {
        if let Some(outcome @ (Outcome::Passed | Outcome::Failed)) = details.outcome {
            let predicate = json!({
                "result": outcome.as_str(),
                "configuration": configuration,
                "passedTests": passed,
                "warnedTests": [],
                "failedTests": failed,
                DETAILS: details,
            });
            return Self::new(subject, TEST_RESULT, predicate);
        }
        let predicate = json!({ "configuration": configuration, DETAILS: details });
        Self::new(subject, ATTEMPT, predicate)
    }

    /// Reads a statement; `None` for what is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let statement: Self = serde_json::from_slice(bytes).ok()?;
        (statement.kind == STATEMENT).then_some(statement)
    }

    /// Writes the statement; the same one gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers, lists and maps of them are always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether it is about an image.
    #[must_use]
    pub fn is_about(&self, image: &Digest) -> bool {
        let is_it = |one: &StatementSubject| {
            one.digest.get("sha256").is_some_and(|digest| digest == image.as_str())
        };
        self.subject.iter().any(is_it)
    }

    /// Returns what is said beside the result; nothing where another tool wrote it.
    #[must_use]
    pub fn details(&self) -> Details {
        if let Some(provenance) = Provenance::of(self) {
            return provenance.details();
        }
        let details = self.predicate.get(DETAILS);
        details.and_then(|details| Deserialize::deserialize(details).ok()).unwrap_or_default()
    }

    /// Returns with what checks were made: suites, with what they consisted of.
    #[must_use]
    pub fn configuration(&self) -> Vec<Configuration> {
        let configuration = self.predicate.get("configuration");
        configuration.and_then(|list| Deserialize::deserialize(list).ok()).unwrap_or_default()
    }

    /// Whether a suite was run and at least one of its tests passed. A suite of which no test fits the image
    /// is named as well.
    #[must_use]
    pub fn has_passed(&self, suite: &str) -> bool {
        let passed = self.predicate.get("passedTests").and_then(Value::as_array);
        let mut passed = passed.into_iter().flatten().filter_map(Value::as_str);
        let is_of_suite = |name: &str| {
            name.strip_prefix(suite).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        };
        self.configuration().iter().any(|one| one.name == suite) && passed.any(is_of_suite)
    }

    /// Returns the outcome of tests; `None` where it says nothing about tests. A result that contradicts
    /// its details is an error.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let said = self.details().outcome;
        match self.predicate_type.as_str() {
            TEST_RESULT => {
                let result = self.predicate.get("result").and_then(Value::as_str);
                let result = match result {
                    Some("PASSED" | "WARNED") => Outcome::Passed,
                    Some("FAILED") => Outcome::Failed,
                    _ => Outcome::Error,
                };
                let contradicts = said.is_some_and(|said| said != result);
                Some(if contradicts { Outcome::Error } else { result })
            }
            ATTEMPT => Some(match said {
                Some(Outcome::NotTested) => Outcome::NotTested,
                _ => Outcome::Error,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(letter: &str) -> Digest {
        letter.repeat(64).parse().unwrap()
    }

    fn statement(outcome: Outcome) -> Statement {
        let details = Details {
            outcome: Some(outcome),
            system: Some("daint".to_owned()),
            generation: Some("2".to_owned()),
            ..Details::default()
        };
        let (image, manifest) = (digest("a"), digest("b"));
        let subject = ("app/1.0:v1@daint%gh200", &image, Some(&manifest));
        Statement::of_checks(subject, (&["starts"], &[]), &[], &details)
    }

    #[test]
    fn each_outcome_is_read_as_it_was_written() {
        for outcome in Outcome::ALL {
            let read = Statement::from_bytes(&statement(outcome).to_bytes()).unwrap();
            assert_eq!(read.outcome(), Some(outcome));
            assert_eq!(read.details().generation.as_deref(), Some("2"));
            assert_eq!(read.details().system.as_deref(), Some("daint"));
            assert!(read.is_about(&digest("a")) && read.is_about(&digest("b")));
            assert!(!read.is_about(&digest("c")));
        }
    }

    #[test]
    fn a_suite_has_passed_if_it_was_run_and_a_test_of_it_passed() {
        let suite =
            |name: &str| Configuration { name: name.to_owned(), ..Configuration::default() };
        let image = digest("a");
        let details = Details { outcome: Some(Outcome::Passed), ..Details::default() };
        let passed = ["starts", "hpc/Hello@daint:normal+default", "other/"];
        let configuration = [suite("hpc"), suite("empty"), suite("other")];
        let subject = ("app", &image, None);
        let statement = Statement::of_checks(subject, (&passed, &[]), &configuration, &details);
        assert!(statement.has_passed("hpc"));
        for name in ["empty", "other", "starts", "hp", "", "hpc/Hello@daint:normal+default"] {
            assert!(!statement.has_passed(name), "{name}");
        }
        let unnamed = Statement::of_checks(subject, (&passed, &[]), &[], &details);
        assert!(!unnamed.has_passed("hpc"));
    }

    #[test]
    fn an_error_is_no_test_result_for_other_verifiers() {
        for outcome in [Outcome::Error, Outcome::NotTested] {
            let statement = statement(outcome);
            assert_eq!(statement.predicate_type, ATTEMPT);
            assert!(statement.predicate.get("result").is_none());
        }
    }

    #[test]
    fn a_result_that_contradicts_itself_has_not_passed() {
        let mut changed = statement(Outcome::Failed);
        changed.predicate["result"] = json!("PASSED");
        assert_eq!(changed.outcome(), Some(Outcome::Error));
        let of_others = Statement::new(
            ("app", &digest("a"), None),
            TEST_RESULT,
            json!({"result": "PASSED", "configuration": []}),
        );
        assert_eq!(of_others.outcome(), Some(Outcome::Passed));
        let other = Statement::new(
            ("app", &digest("a"), None),
            "https://slsa.dev/provenance/v1",
            json!({}),
        );
        assert_eq!(other.outcome(), None);
    }
}
