// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reports of `ReFrame`: the JSON that its option `--report-file` writes. Pure.
//!
//! Only keys that its schema requires are needed. A report can come from anywhere, so nothing in it is
//! trusted: it says neither which image was tested nor why a test failed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::outcome::Measured;

/// The versions of the format that are read: all that begin with this number.
const VERSION: &str = "4";
/// The key of `--session-extras` that names the image.
const IMAGE: &str = "cabane_image";

/// Why a report cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It is not the JSON of a report.
    #[error("it is not a report of ReFrame: {0}")]
    Malformed(String),
    /// It has another version of the format.
    #[error("it has data version {0}, and only versions 4.x can be read")]
    Version(String),
}

/// A report of `ReFrame`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ReframeReport {
    /// The session.
    #[serde(rename = "session_info")]
    pub session: Session,
    /// The runs: tests that failed can be run again.
    #[serde(default)]
    pub runs: Vec<ReframeRun>,
}

/// What a report says of its session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Session {
    data_version: String,
    /// The version of `ReFrame`.
    #[serde(default)]
    pub version: Option<String>,
    /// When it ended, in seconds since 1970.
    #[serde(default)]
    pub time_end_unix: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A run of tests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ReframeRun {
    /// The tests, each in one partition with one environment.
    #[serde(default)]
    pub testcases: Vec<Testcase>,
}

/// A test in one partition with one environment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Testcase {
    /// Its name with its parameters.
    pub unique_name: String,
    /// The system.
    #[serde(default)]
    pub system: Option<String>,
    /// The partition of the system.
    #[serde(default)]
    pub partition: Option<String>,
    /// The environment.
    #[serde(default)]
    pub environ: Option<String>,
    /// What came of it: `pass`, `fail`, `fail_deps`, `xfail`, `xpass`, `abort`, `skip`.
    pub result: String,
    /// The phase in which it failed.
    #[serde(default)]
    pub fail_phase: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub fail_reason: Option<String>,
    /// How long it took, in seconds.
    #[serde(default)]
    pub time_total: Option<f64>,
    /// The directory in which it ran.
    #[serde(default)]
    pub stagedir: Option<String>,
    /// Where its output is kept if it passed: the first directory is removed then.
    #[serde(default)]
    pub outputdir: Option<String>,
    /// The file in that directory with what its job wrote to the standard error.
    #[serde(default)]
    pub job_stderr: Option<String>,
    /// The same of the standard output.
    #[serde(default)]
    pub job_stdout: Option<String>,
    /// The same of its build.
    #[serde(default)]
    pub build_stderr: Option<String>,
    /// What it measured, as the report has it.
    #[serde(default)]
    pub perfvalues: BTreeMap<String, Value>,
}

impl ReframeReport {
    /// Reads a report.
    ///
    /// # Errors
    ///
    /// It is no report, or one of a version that is not known.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReportError> {
        let malformed = |error: serde_json::Error| ReportError::Malformed(error.to_string());
        // Another version may have other keys, so it is looked at first.
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(malformed)?;
        let version = versioned.session_info.data_version;
        if version.split('.').next() != Some(VERSION) {
            return Err(ReportError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// Returns the sha256 of the image that the session says it tested; `None` if it names none.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        self.session.others.get(IMAGE).and_then(Value::as_str)
    }

    /// Returns how many tests there are, each counted once.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.first().map_or(0, |run| run.testcases.len())
    }
}

/// What remains of a test when a report is reduced.
const KEPT: [&str; 19] = [
    "environ",
    "fail_phase",
    "fail_reason",
    "fixture",
    "job_completion_time",
    "job_completion_time_unix",
    "name",
    "num_tasks",
    "partition",
    "perfvalues",
    "result",
    "run_index",
    "scheduler",
    "system",
    "tags",
    "time_run",
    "time_total",
    "unique_name",
    "uuid",
];
/// What remains of a session.
const KEPT_OF_SESSION: [&str; 9] = [
    "data_version",
    "num_cases",
    "num_failures",
    "time_elapsed",
    "time_end_unix",
    "time_start_unix",
    "uuid",
    "version",
    IMAGE,
];

/// Returns a report without what others must not know: names of users and hosts, command lines, and
/// directories. What the schema of `ReFrame` requires stays, empty where need be.
///
/// # Errors
///
/// As [`ReframeReport::from_bytes`].
pub fn reduced(bytes: &[u8]) -> Result<Vec<u8>, ReportError> {
    ReframeReport::from_bytes(bytes)?;
    let malformed = |error: serde_json::Error| ReportError::Malformed(error.to_string());
    let mut report: Map<String, Value> = serde_json::from_slice(bytes).map_err(malformed)?;
    report.retain(|key, _| matches!(key.as_str(), "session_info" | "runs"));
    report.insert("restored_cases".to_owned(), Value::Array(Vec::new()));
    if let Some(session) = report.get_mut("session_info").and_then(Value::as_object_mut) {
        session.retain(|key, _| KEPT_OF_SESSION.contains(&key.as_str()));
        session.insert("hostname".to_owned(), Value::String(String::new()));
    }
    let runs = report.get_mut("runs").and_then(Value::as_array_mut).into_iter().flatten();
    for run in runs.filter_map(Value::as_object_mut) {
        run.retain(|key, _| key.starts_with("num_") || key == "testcases" || key == "run_index");
        let cases = run.get_mut("testcases").and_then(Value::as_array_mut).into_iter().flatten();
        for case in cases.filter_map(Value::as_object_mut) {
            case.retain(|key, _| KEPT.contains(&key.as_str()));
            case.insert("filename".to_owned(), Value::String(String::new()));
        }
    }
    serde_json::to_vec(&report).map_err(malformed)
}

#[derive(Deserialize)]
struct Versioned {
    session_info: Version,
}

#[derive(Deserialize)]
struct Version {
    data_version: String,
}

impl Testcase {
    /// Returns its name with where it ran: `Hello@daint:normal+default`.
    #[must_use]
    pub fn name(&self) -> String {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (system, partition) = (text(&self.system), text(&self.partition));
        format!("{}@{system}:{partition}+{}", self.unique_name, text(&self.environ))
    }

    /// Returns what it measured. What is not a number is left out.
    #[must_use]
    pub fn figures(&self) -> Vec<Measured> {
        self.perfvalues.iter().filter_map(|(name, value)| figure(name, value)).collect()
    }
}

/// Reads `"system:partition:variable": [value, reference, lower, upper, unit, result]`.
fn figure(name: &str, value: &Value) -> Option<Measured> {
    let fields = value.as_array()?;
    let number = |index: usize| fields.get(index).and_then(Value::as_f64);
    let (lower, upper) = (number(2), number(3));
    // Without limits, zero stands for no reference.
    let is_reference = |one: &f64| *one != 0.0 || lower.is_some() || upper.is_some();
    let reference = number(1).filter(is_reference);
    Some(Measured {
        variable: name.splitn(3, ':').last().unwrap_or(name).to_owned(),
        value: number(0)?,
        unit: fields.get(4).and_then(Value::as_str).unwrap_or_default().to_owned(),
        reference,
        lower: lower.filter(|_| reference.is_some()),
        upper: upper.filter(|_| reference.is_some()),
    })
}

/// Returns the option of `ReFrame` that binds a session to an image.
#[must_use]
pub fn session_extras(image: &cabane_label::Digest) -> String {
    format!("--session-extras={IMAGE}={image}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{
        "session_info": {"data_version": "4.2", "hostname": "n1", "time_elapsed": 1.5,
            "time_end_unix": 1795719074.7, "time_start_unix": 1795719072.8, "uuid": "u",
            "version": "4.10.4", "cabane_image": "abc"},
        "runs": [{"num_cases": 1, "num_failures": 0, "testcases": [{
            "environ": "default", "fail_phase": null, "fail_reason": null,
            "filename": "/s/hello.py", "job_completion_time_unix": null, "name": "Hello",
            "perfvalues": {"here:p:bw": [42.5, 40, -0.1, null, "MB/s", "pass"],
                           "here:p:time": [3, 0, null, null, "s"],
                           "here:p:odd": ["x"], "short": 3},
            "partition": "p", "result": "pass", "system": "here", "time_total": 1.49,
            "unique_name": "Hello %n=1"}]}],
        "restored_cases": []}"#;

    #[test]
    fn a_report_is_read_with_its_figures() {
        let report = ReframeReport::from_bytes(REPORT.as_bytes()).unwrap();
        assert_eq!((report.image(), report.count()), (Some("abc"), 1));
        assert_eq!(report.session.version.as_deref(), Some("4.10.4"));
        let case = &report.runs[0].testcases[0];
        assert_eq!(case.name(), "Hello %n=1@here:p+default");
        let figures = case.figures();
        let text: Vec<_> = figures
            .iter()
            .map(|one| (one.variable.as_str(), one.value, one.reference, one.lower, one.upper))
            .collect();
        let expected =
            [("bw", 42.5, Some(40.0), Some(-0.1), None), ("time", 3.0, None, None, None)];
        assert_eq!(text, expected);
        assert_eq!(figures[0].unit, "MB/s");
    }

    #[test]
    fn a_reduced_report_says_the_same_about_tests_and_nothing_about_the_machine() {
        let text = reduced(REPORT.as_bytes()).unwrap();
        let (before, after) = (
            ReframeReport::from_bytes(REPORT.as_bytes()).unwrap(),
            ReframeReport::from_bytes(&text),
        );
        assert_eq!(after.as_ref().map(|report| &report.runs), Ok(&before.runs));
        assert_eq!(after.unwrap().image(), Some("abc"));
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("n1") && !text.contains("/s/hello.py"), "{text}");
    }

    #[test]
    fn another_version_is_refused_by_its_name() {
        for version in ["3.1", "5.0", "40.1", "", "x"] {
            let text = REPORT.replace("\"4.2\"", &format!("\"{version}\""));
            let error = ReframeReport::from_bytes(text.as_bytes()).unwrap_err();
            assert_eq!(error, ReportError::Version(version.to_owned()));
        }
        for version in ["4.0", "4.17", "4"] {
            let text = REPORT.replace("\"4.2\"", &format!("\"{version}\""));
            assert!(ReframeReport::from_bytes(text.as_bytes()).is_ok(), "{version}");
        }
    }

    /// Random numbers that are the same in each run.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        }
    }

    #[test]
    fn bad_input_is_an_error_and_no_panic() {
        let mut number = numbers();
        let replacements: [&[u8]; 8] =
            [b"null", b"[", b"}", b"\"", b"-1e999", b"NaN", b"\xff", b"{\"a\": [[]]}"];
        for _ in 0..20_000 {
            let mut bytes = REPORT.as_bytes().to_vec();
            for _ in 0..=number(3) {
                let begin = number(bytes.len());
                let end = (begin + number(12)).min(bytes.len());
                let replacement = replacements[number(replacements.len())];
                bytes.splice(begin..end, replacement.iter().copied());
            }
            let Ok(report) = ReframeReport::from_bytes(&bytes) else {
                continue;
            };
            let cases = report.runs.iter().flat_map(|run| &run.testcases);
            for case in cases {
                assert!(case.figures().iter().all(|one| one.value.is_finite()));
                assert!(!case.name().is_empty());
            }
        }
        // Deep nesting ends as well.
        let deep = "[".repeat(100_000);
        assert!(ReframeReport::from_bytes(deep.as_bytes()).is_err());
    }
}
