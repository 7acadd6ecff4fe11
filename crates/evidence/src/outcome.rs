// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What comes of checks, and on what they ran.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What came of a check, or of all checks of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The image does what it must.
    #[serde(rename = "PASSED")]
    Passed,
    /// The image does not.
    #[serde(rename = "FAILED")]
    Failed,
    /// The infrastructure failed. That says nothing about the image.
    #[serde(rename = "ERROR")]
    Error,
    /// Nothing was tested.
    #[serde(rename = "NOT TESTED")]
    NotTested,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Passed, Self::Failed, Self::Error, Self::NotTested];

    /// Returns its words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Error => "ERROR",
            Self::NotTested => "NOT TESTED",
        }
    }

    /// Returns the outcome of all: one failure is a failure; otherwise one error leaves the rest in doubt;
    /// otherwise one that passed is enough.
    pub fn of_all(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let of_all = |known: Option<Self>, one: Self| match (known, one) {
            (Some(Self::Failed), _) | (_, Self::Failed) => Some(Self::Failed),
            (Some(Self::Error), _) | (_, Self::Error) => Some(Self::Error),
            (Some(Self::Passed), _) | (_, Self::Passed) => Some(Self::Passed),
            _ => Some(Self::NotTested),
        };
        outcomes.into_iter().fold(None, of_all).unwrap_or(Self::NotTested)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = match text {
            "pass" => "passed".to_owned(),
            "fail" => "failed".to_owned(),
            other => other.replace(['-', '_'], " "),
        };
        let found = Self::ALL.into_iter().find(|one| one.as_str().eq_ignore_ascii_case(&wanted));
        found.ok_or_else(|| "use `passed`, `failed`, `error`, or `not-tested`".to_owned())
    }
}

/// A number that a check measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub variable: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
    /// The lower limit, as a fraction of the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<f64>,
    /// The upper limit, as a fraction of the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<f64>,
}

/// A figure that a check did not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name, or how the names of several begin.
    pub figure: String,
    /// Why there is none.
    pub reason: String,
}

/// The machine on which checks ran, as far as it matters to others. Neither its name nor that of the
/// user is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The system, if the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The operating system: `Debian GNU/Linux 12 (bookworm)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The kernel: `6.12.41`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The architecture: `x86_64`.
    pub architecture: String,
    /// The GNU C library: `2.36`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The driver of NVIDIA GPUs: `550.54.15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia_driver: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outcome_becomes_another() {
        use Outcome::{Error, Failed, NotTested, Passed};
        let cases = [
            (vec![], NotTested),
            (vec![NotTested, NotTested], NotTested),
            (vec![NotTested, Passed], Passed),
            (vec![Passed, Error], Error),
            (vec![NotTested, Error], Error),
            (vec![Error, Failed, Passed], Failed),
        ];
        for (outcomes, expected) in cases {
            assert_eq!(Outcome::of_all(outcomes.clone()), expected, "{outcomes:?}");
            let reversed = outcomes.iter().rev().copied();
            assert_eq!(Outcome::of_all(reversed), expected, "{outcomes:?}");
        }
    }

    #[test]
    fn the_words_can_be_typed() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().to_lowercase().replace(' ', "-").parse(), Ok(outcome));
        }
        assert!("ok".parse::<Outcome>().is_err());
    }
}
