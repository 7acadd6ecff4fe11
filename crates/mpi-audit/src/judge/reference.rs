// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the installations of a system reached when it was known to be well.
//!
//! ```text
//! {
//!   "version": 1,
//!   "system": "daint",
//!   "nodes": 1,
//!   "latency": { "8": { "microseconds": 0.34, "distance": 0.065 }, … }
//! }
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::peers::{LATENCIES, Latencies, Latency, Peers};

const VERSION: u32 = 1;

/// Latencies that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    version: u32,
    /// Where they were measured.
    pub system: String,
    /// Over how many nodes.
    pub nodes: u32,
    /// The median of the healthy installations for each size.
    pub latency: BTreeMap<u64, Latency>,
}

/// A text that holds no references.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// It is something else.
    #[error("read references")]
    NoReference(#[from] serde_json::Error),
    /// It was written by another Cabane.
    #[error("read references of version {0}, and only version {VERSION} is known")]
    OtherVersion(u32),
    /// A latency that cannot be.
    #[error("compare with a latency of {microseconds} microseconds for {bytes} bytes")]
    Impossible {
        /// The size of the message.
        bytes: u64,
        /// The value in the file.
        microseconds: f64,
    },
}

impl Reference {
    /// Makes references of latencies; `None` without a healthy installation.
    pub fn new(system: &str, nodes: u32, all: &[&Latencies]) -> Option<Self> {
        let peers = Peers::among(all);
        let of = |bytes: &u64| Some((*bytes, peers.most_common(*bytes)?));
        Some(Self {
            version: VERSION,
            system: system.to_owned(),
            nodes,
            latency: LATENCIES.iter().map(of).collect::<Option<_>>()?,
        })
    }

    /// Reads the text of a file.
    pub fn from_json(text: &str) -> Result<Self, ReferenceError> {
        let reference: Self = serde_json::from_str(text)?;
        if reference.version != VERSION {
            return Err(ReferenceError::OtherVersion(reference.version));
        }
        let is_bad = |value: f64| !value.is_finite() || value <= 0.0;
        for (&bytes, latency) in &reference.latency {
            let values = [Some(latency.microseconds), latency.distance];
            if let Some(microseconds) = values.into_iter().flatten().find(|value| is_bad(*value)) {
                return Err(ReferenceError::Impossible { bytes, microseconds });
            }
        }
        Ok(reference)
    }

    /// Writes the text of a file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
