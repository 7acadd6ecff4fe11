// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files with the results of earlier audits: one in the state directory for each type of node,
//! number of ranks, and number of nodes.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_registry::write_at_once;
use cabane_site::Context;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::benchmark::NodeType;
use crate::judge::{AuditChange, ComparedInstallation, KeptAudits};

/// The files of audits with one number of ranks and nodes.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    /// Without a state directory nothing is kept.
    directory: Option<PathBuf>,
    ranks: u32,
    nodes: u32,
}

impl KeptFiles {
    pub(crate) fn new(context: &Context, ranks: u32, nodes: u32) -> Self {
        let state = context.settings.state_directory.as_ref();
        Self { directory: state.map(|state| state.join("mpi-audits")), ranks, nodes }
    }

    /// Reads what is kept of all types of nodes. Damaged files are skipped.
    pub(crate) fn all(&self) -> Vec<KeptAudits> {
        let entries = self.directory.as_ref().and_then(|directory| fs::read_dir(directory).ok());
        let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter_map(|path| self.read(&path)).collect()
    }

    fn read(&self, path: &Path) -> Option<KeptAudits> {
        let kept = KeptAudits::from_json(&fs::read_to_string(path).ok()?)?;
        ((kept.ranks, kept.nodes) == (self.ranks, self.nodes)).then_some(kept)
    }

    /// Keeps the results of today, and returns what has changed since an earlier day. If the file
    /// cannot be written, a warning says so.
    pub(crate) fn keep(
        &self,
        context: &Context,
        node_type: &NodeType,
        now: &[ComparedInstallation],
    ) -> Vec<AuditChange> {
        let Some(path) = self.path(node_type) else {
            return Vec::new();
        };
        let kept = self.read(&path).filter(|kept| kept.node_type == *node_type);
        let mut kept =
            kept.unwrap_or_else(|| KeptAudits::new(node_type.clone(), self.ranks, self.nodes));
        let (day, before) = (today(), kept.clone());
        let changes = kept.changes(day, now);
        kept.add(day, now);
        if kept != before
            && let Err(error) = write_at_once(&path, kept.to_json().as_bytes())
        {
            let path = shown(&path);
            context.warning(format_args!("cannot keep the results in {path}: {error}"));
        }
        changes
    }

    fn path(&self, node_type: &NodeType) -> Option<PathBuf> {
        let simple = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        let model: String = node_type.model.chars().map(simple).take(100).collect();
        let (processors, ranks, nodes) = (node_type.processors, self.ranks, self.nodes);
        let name = format!("{model}.{processors}-processors.{ranks}-ranks.{nodes}-nodes.json");
        Some(self.directory.as_ref()?.join(name))
    }
}

fn today() -> Date {
    TimeZone::UTC.to_datetime(Timestamp::now()).date()
}
