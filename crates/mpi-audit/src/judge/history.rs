// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What has changed since an earlier audit of the same system.

use std::collections::BTreeMap;

use cabane_report::{Kind as ReportKind, Report, Result};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::peers::{LATENCIES, Latency, usable};
use crate::benchmark::{Figure, Kind};

/// By which factor two latencies of one healthy installation may differ. Runs that agree are within
/// 1.25 of each other, and a machine has days on which all of it is a little slower.
const ALIKE: f64 = 1.5;

/// An audit, as `cabane mpi audit --json` printed it. What else is in the text is skipped.
#[derive(Clone, Debug, Deserialize)]
pub struct EarlierAudit {
    ranks: u32,
    nodes: u32,
    installations: Vec<ComparedInstallation>,
}

/// An installation of an audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedInstallation {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// Something that has changed between two audits. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum AuditChange {
    /// An installation is new.
    Added {
        /// Its name.
        name: String,
    },
    /// An installation was not found any more.
    Removed {
        /// Its name.
        name: String,
    },
    /// An installation is in another class.
    Class {
        /// Its name.
        name: String,
        /// The class that it had.
        before: Class,
        /// The class that it has.
        now: Class,
        /// The day of the earlier result, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Date>,
    },
    /// Messages of a size take longer, or less long.
    Latency {
        /// The name of the installation.
        name: String,
        /// The size of the messages.
        bytes: u64,
        /// The best latency then.
        before: f64,
        /// The best latency now.
        now: f64,
        /// The day of the earlier result, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Date>,
    },
}

impl EarlierAudit {
    /// Reads what `cabane mpi audit --json` printed.
    ///
    /// # Errors
    ///
    /// It is no such text, or ranks and nodes were not as many.
    pub fn from_json(text: &str, ranks: u32, nodes: u32) -> Result<Self> {
        let earlier: Self = serde_json::from_str(text).map_err(|source| {
            Report::caused(ReportKind::BadInput, "it is not the JSON output of an audit", source)
        })?;
        if (earlier.ranks, earlier.nodes) != (ranks, nodes) {
            let message = format!(
                "that audit had {} ranks over {}, and this one has {ranks} over {}",
                earlier.ranks,
                counted(earlier.nodes),
                counted(nodes)
            );
            return Err(Report::new(ReportKind::BadInput, message));
        }
        Ok(earlier)
    }

    /// Compares with the installations of now, in their order. Inconclusive results are not compared, nor
    /// are latencies of ranks that were not equally far apart or had to wait for their processors.
    #[must_use]
    pub fn changes(&self, now: &[ComparedInstallation]) -> Vec<AuditChange> {
        let before: BTreeMap<&str, &ComparedInstallation> =
            self.installations.iter().map(|one| (one.name.as_str(), one)).collect();
        let mut changes = Vec::new();
        for one in now {
            match before.get(one.name.as_str()) {
                Some(earlier) => one.add_changes(earlier, None, &mut changes),
                None => changes.push(AuditChange::Added { name: one.name.clone() }),
            }
        }
        let is_gone = |one: &&ComparedInstallation| !now.iter().any(|other| other.name == one.name);
        let gone = self.installations.iter().filter(is_gone);
        changes.extend(gone.map(|one| AuditChange::Removed { name: one.name.clone() }));
        changes
    }
}

impl ComparedInstallation {
    pub(super) fn add_changes(
        &self,
        before: &Self,
        since: Option<Date>,
        changes: &mut Vec<AuditChange>,
    ) {
        let is_certain = |one: &Self| one.class != Class::Inconclusive;
        if !is_certain(self) || !is_certain(before) {
            return;
        }
        if self.class != before.class {
            let (before, now) = (before.class, self.class);
            changes.push(AuditChange::Class { name: self.name.clone(), before, now, since });
        }
        for bytes in LATENCIES {
            let (mine, theirs) = (self.latencies(bytes), before.latencies(bytes));
            let Some((now, before)) = best_alike(&mine, &theirs) else { continue };
            if now > before * ALIKE || before > now * ALIKE {
                let name = self.name.clone();
                changes.push(AuditChange::Latency { name, bytes, before, now, since });
            }
        }
    }

    pub(super) fn latencies(&self, bytes: u64) -> Vec<Latency> {
        let is_one = |one: &&Figure| one.kind == Kind::Latency && one.bytes == bytes;
        let mut all = usable(self.figures.iter().filter(is_one));
        all.retain(|latency| !latency.is_disturbed);
        all
    }
}

fn counted(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Returns the best latencies of two installations whose ranks were equally far apart.
fn best_alike(mine: &[Latency], theirs: &[Latency]) -> Option<(f64, f64)> {
    let best = |some: &[Latency], like: &[Latency]| {
        let alike = some.iter().filter(|one| like.iter().any(|other| one.is_like(other)));
        alike.map(|one| one.microseconds).reduce(f64::min)
    };
    Some((best(mine, theirs)?, best(theirs, mine)?))
}
