// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What came of checks.

use std::fmt;

use cabane_evidence::{Configuration, Host, LeftOut, Measured, Outcome};
use cabane_label::{Digest, Label};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a check comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The recipe of the image.
    Recipe,
    /// Cabane; no recipe names it.
    Builtin,
    /// A suite of `ReFrame`.
    Suite,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Recipe => "recipe",
            Self::Builtin => "built-in",
            Self::Suite => "suite",
        })
    }
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it did not pass, or what was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What it measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Measured>,
    /// What it did not measure, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<LeftOut>,
}

/// What came of all checks of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The image as it was typed.
    pub image: String,
    /// Its label, if it was found by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// The sha256 of the image.
    pub digest: Digest,
    /// The size of the image in bytes.
    pub size: u64,
    /// What came of all.
    pub outcome: Outcome,
    /// Each check.
    pub checks: Vec<CheckResult>,
    /// The names of checks that were left out on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The suites that were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<Configuration>,
    /// When the first began.
    pub started: Timestamp,
    /// When the last ended.
    pub finished: Timestamp,
    /// On what they ran.
    pub host: Host,
}
