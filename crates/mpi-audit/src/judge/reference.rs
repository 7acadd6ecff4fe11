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

use cabane_report::{Kind, Report, Result};
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

impl Reference {
    /// Makes references of latencies; `None` without a healthy installation.
    pub fn new(system: &str, nodes: u32, all: &[Latencies]) -> Option<Self> {
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
    ///
    /// # Errors
    ///
    /// It holds no references, those of another version, or a latency that cannot be.
    pub fn from_json(text: &str) -> Result<Self> {
        let reference: Self = serde_json::from_str(text)
            .map_err(|source| Report::caused(Kind::BadInput, "it holds no references", source))?;
        let version = reference.version;
        let unusable = |text| Err(Report::new(Kind::BadInput, text));
        if version != VERSION {
            return unusable(format!(
                "its references have version {version}, and only version {VERSION} is known"
            ));
        }
        let is_bad = |value: f64| !value.is_finite() || value <= 0.0;
        for (&bytes, latency) in &reference.latency {
            let values = [Some(latency.microseconds), latency.distance];
            if let Some(microseconds) = values.into_iter().flatten().find(|value| is_bad(*value)) {
                return unusable(format!(
                    "it has a latency of {microseconds} microseconds for {bytes} bytes"
                ));
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
