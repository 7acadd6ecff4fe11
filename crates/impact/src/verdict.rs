// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What happens to an image, and why.

use std::fmt;

use cabane_label::Digest;
use serde::{Deserialize, Serialize};

/// What happens to an image. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It works as before.
    Unaffected,
    /// Its metadata do not say enough.
    Unknown,
    /// It works, and should be built again.
    RebuildAdvised,
    /// Something in it does not work any more.
    Breaks,
}

impl Verdict {
    /// All of them, the worst first.
    pub const ALL: [Self; 4] =
        [Self::Breaks, Self::RebuildAdvised, Self::Unknown, Self::Unaffected];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unaffected => "unaffected",
            Self::Unknown => "unknown",
            Self::RebuildAdvised => "rebuild advised",
            Self::Breaks => "breaks",
        })
    }
}

/// Why an image has its verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reason {
    /// What this reason alone would lead to.
    pub verdict: Verdict,
    /// From the change to the files and packages of the image that it concerns.
    pub chain: Vec<String>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain.join(": "))
    }
}

/// What happens to one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageImpact {
    /// Its label.
    pub label: String,
    /// Its digest.
    pub digest: Digest,
    /// The repository or registry in which it is.
    pub source: String,
    /// The worst of the reasons.
    pub verdict: Verdict,
    /// The reasons, the worst first.
    pub reasons: Vec<Reason>,
}
