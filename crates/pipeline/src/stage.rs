// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The stages of a cell, and what came of them.

use std::fmt;
use std::str::FromStr;

use cabane_builder::Pins;
use cabane_check::CheckReport;
use cabane_evidence::{Outcome, Provenance};
use cabane_label::{Digest, enumerate, escape};
use cabane_report::{Kind, Report};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;

/// What is done for a cell, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The image is built, or pulled where the registry has it.
    Build,
    /// It is tested on the system.
    Check,
    /// It is pushed with the results, whatever they are.
    Publish,
    /// It gets its final label and is released, if it passed.
    Promote,
}

impl Stage {
    /// All stages, in their order.
    pub const ALL: [Self; 4] = [Self::Build, Self::Check, Self::Publish, Self::Promote];

    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Check => "check",
            Self::Publish => "publish",
            Self::Promote => "promote",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str);
        Self::ALL.into_iter().find(|stage| stage.as_str() == text).ok_or_else(|| {
            format!("`{}` is no stage; the stages are {}", escape(text), enumerate(&known, "and"))
        })
    }
}

/// What came of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageResult {
    /// The stage.
    pub stage: Stage,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it did not pass, or what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What can be typed about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// The sum of what the cell is built from.
    pub inputs: Digest,
    /// What bases mean that it is built on.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub bases: Pins,
    /// The sha256 of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The results of checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<CheckReport>,
    /// From what and by what the image was built, if it was built in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl StageResult {
    /// Returns how long it took, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.finished.duration_since(self.started).as_secs_f64()
    }

    /// Returns the result of a stage that could not be carried out.
    #[must_use]
    pub fn of_failure(stage: Stage, cell: &Cell, started: Timestamp, report: &Report) -> Self {
        // What the author of a recipe can change is a failure of the image. All else says nothing about it.
        let is_of_image = match stage {
            Stage::Build | Stage::Check => matches!(report.kind(), Kind::Build | Kind::BadInput),
            Stage::Publish => false,
            Stage::Promote => report.kind() == Kind::Rejected,
        };
        let mut message = report.to_string();
        for cause in report.causes() {
            message += &format!(": {cause}");
        }
        if let Some(detail) = report.detail() {
            message += &format!("\n{}", detail.trim_end());
        }
        Self {
            stage,
            outcome: if is_of_image { Outcome::Failed } else { Outcome::Error },
            message: Some(message),
            hints: report.hints().to_vec(),
            started,
            finished: Timestamp::now(),
            inputs: cell.inputs.clone(),
            bases: cell.pins.clone(),
            digest: None,
            report: None,
            provenance: None,
        }
    }
}
