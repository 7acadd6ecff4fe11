// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What came of a build.

use cabane_label::Digest;
use cabane_report::{Kind, Report};
use serde::{Deserialize, Serialize};

use crate::event::escape_lines;

/// What came of a build.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    /// There is an image.
    Built(BuiltImage),
    /// There is none.
    Failed(Failed),
    /// The build was stopped by a signal: a limit of the job, or an administrator.
    Interrupted,
    /// The user has cancelled it.
    Cancelled,
}

/// An image that was built elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BuiltImage {
    /// Its label, if it gets one.
    pub(crate) label: Option<String>,
    /// Its digest.
    pub(crate) digest: Digest,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its format.
    pub(crate) format: String,
    /// How long the build took, in seconds.
    pub(crate) seconds: f64,
    /// Whether every step had been done before.
    pub(crate) is_unchanged: bool,
}

/// An error, as data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Failed {
    kind: String,
    message: String,
    detail: Option<String>,
    causes: Vec<String>,
    hints: Vec<String>,
}

/// The kinds of errors that a build may have.
const KINDS: [Kind; 10] = [
    Kind::Failure,
    Kind::Usage,
    Kind::BadInput,
    Kind::NotFound,
    Kind::Ambiguous,
    Kind::Repository,
    Kind::Build,
    Kind::Interrupted,
    Kind::Registry,
    Kind::Untrusted,
];

impl Failed {
    pub(crate) fn new(report: &Report) -> Self {
        Self {
            kind: format!("{:?}", report.kind()),
            message: report.to_string(),
            detail: report.detail().map(str::to_owned),
            causes: report.causes().map(ToString::to_string).collect(),
            hints: report.hints().to_vec(),
        }
    }

    /// Returns the error, to be shown at another machine. Its texts are not trusted. `place` says where
    /// the paths in its hints are.
    pub(crate) fn report(&self, place: Option<&str>) -> Report {
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == self.kind);
        let kind = kind.unwrap_or(Kind::Failure);
        let message = escape_lines(&self.message);
        let mut report = if self.causes.is_empty() {
            Report::new(kind, message)
        } else {
            Report::caused(kind, message, escape_lines(&self.causes.join(": ")))
        };
        if let Some(detail) = &self.detail {
            report = report.detailed(escape_lines(detail));
        }
        for hint in &self.hints {
            let hint = escape_lines(hint);
            report = report.hinted(match place {
                Some(place) => format!("on {place}: {hint}"),
                None => hint,
            });
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_with_its_parts_and_without_control_characters() {
        let report = Report::caused(Kind::Build, "step `install` failed\u{7}", "no \u{1b}[31mdisk")
            .detailed("  one\n  \u{1b}two")
            .hinted("the whole log is in /x".to_owned());
        let text = serde_json::to_string(&Failed::new(&report)).unwrap();
        let arrived = serde_json::from_str::<Failed>(&text).unwrap().report(Some("eiger"));
        assert_eq!(arrived.kind(), Kind::Build);
        let (text, hints) = arrived.texts();
        assert_eq!(text, "step `install` failed\\u{7}: no \\u{1b}[31mdisk\n  one\n  \\u{1b}two");
        assert_eq!(hints.as_deref(), Some("on eiger: the whole log is in /x"));
    }

    #[test]
    fn an_unknown_kind_of_error_is_a_failure() {
        let failed = Failed { kind: "NotSwapped".to_owned(), ..Failed::default() };
        assert_eq!(failed.report(None).kind(), Kind::Failure);
    }
}
