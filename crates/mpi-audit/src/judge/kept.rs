// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The results of earlier audits on nodes of one type. Pure.
//!
//! Each installation keeps one result of each day on which it was audited. The newest ones give a
//! reference where too few healthy installations are audited at once, and an installation is compared
//! with its own newest result of an earlier day.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::history::{AuditChange, ComparedInstallation};
use super::peers::{ENOUGH, LATENCIES, Latencies};
use super::reference::Reference;
use crate::benchmark::NodeType;

const VERSION: u32 = 1;

/// Of how many days results are kept for each installation.
const DAYS: usize = 12;

/// What is kept of one type of node, for one number of ranks and of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptAudits {
    version: u32,
    /// The type of the node of the first rank.
    pub node_type: NodeType,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of nodes.
    pub nodes: u32,
    /// The results; of each installation, the oldest first.
    results: Vec<KeptResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptResult {
    day: Date,
    #[serde(flatten)]
    installation: ComparedInstallation,
}

impl KeptAudits {
    /// Returns a type of node of which nothing is kept.
    #[must_use]
    pub fn new(node_type: NodeType, ranks: u32, nodes: u32) -> Self {
        Self { version: VERSION, node_type, ranks, nodes, results: Vec::new() }
    }

    /// Reads the text of a file; `None` if it is damaged or of another version.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        let kept: Self = serde_json::from_str(text).ok()?;
        (kept.version == VERSION).then_some(kept)
    }

    /// Returns the text of a file.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds the results of an audit of a day, except those that are inconclusive. An earlier result of
    /// the same day is replaced.
    pub fn add(&mut self, day: Date, now: &[ComparedInstallation]) {
        for installation in now.iter().filter(|one| one.class != Class::Inconclusive) {
            let is_same = |kept: &KeptResult| kept.installation.name == installation.name;
            self.results.retain(|kept| !(is_same(kept) && kept.day == day));
            self.results.push(KeptResult { day, installation: installation.clone() });
            let mut surplus = self.results.iter().filter(|kept| is_same(kept)).count();
            surplus = surplus.saturating_sub(DAYS);
            self.results.retain(|kept| {
                let is_surplus = surplus > 0 && is_same(kept);
                surplus -= usize::from(is_surplus);
                !is_surplus
            });
        }
    }

    /// Returns the latencies of the installations that were healthy last; `None` if there are too few
    /// to compare with.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        let mut newest = BTreeMap::new();
        for kept in &self.results {
            newest.insert(kept.installation.name.as_str(), &kept.installation);
        }
        let healthy = newest.values().filter(|one| one.class.is_healthy());
        let healthy: Vec<Latencies> = healthy.map(|one| one.all_latencies()).collect();
        if healthy.len() < ENOUGH {
            return None;
        }
        Reference::new(&self.node_type.model, self.nodes, &healthy)
    }

    /// Compares installations with their newest results of an earlier day. Installations without such
    /// a result are skipped.
    #[must_use]
    pub fn changes(&self, day: Date, now: &[ComparedInstallation]) -> Vec<AuditChange> {
        let mut changes = Vec::new();
        for one in now {
            let of_it = self.results.iter().rev();
            let mut of_it = of_it.filter(|kept| kept.installation.name == one.name);
            if let Some(earlier) = of_it.find(|kept| kept.day < day) {
                one.add_changes(&earlier.installation, Some(earlier.day), &mut changes);
            }
        }
        changes
    }
}

impl ComparedInstallation {
    fn all_latencies(&self) -> Latencies {
        LATENCIES.iter().map(|bytes| (*bytes, self.latencies(*bytes))).collect()
    }
}
