// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What to change in a pipeline so that it builds images anew.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{LabelPattern, System};
use cabane_report::Result;
use serde::Serialize;

use crate::cell::{Cell, CellName};
use crate::pipeline::Pipeline;

/// How a pipeline builds images anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// The revisions to write.
    pub revisions: Vec<NewRevision>,
    /// Cells that have changed since their image was built, so that the next run builds them anyway.
    pub changed: BTreeSet<CellName>,
}

/// The revisions of one version of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRevision {
    /// The line of the version in the file of the pipeline, from 1.
    pub line: usize,
    /// The cells that are built anew.
    pub cells: BTreeSet<CellName>,
    /// The revision of each system that has one: the whole value of the key.
    pub revision: BTreeMap<System, String>,
}

impl Pipeline {
    /// Says how the images of some labels are built anew. A label of which no cell builds an image, or that
    /// is not whole, is ignored.
    ///
    /// # Errors
    ///
    /// None: the digits of a sum are a tag.
    pub fn repairs<'l>(&self, labels: impl Iterator<Item = &'l str>) -> Result<Repairs> {
        let mut repairs = Repairs::default();
        let mut affected: BTreeMap<usize, Vec<&Cell>> = BTreeMap::new();
        for label in labels {
            let Ok(pattern) = label.parse::<LabelPattern>() else { continue };
            let Some(tag) = &pattern.tag else { continue };
            let mut meant = self.cells.iter().filter(|cell| cell.name.matches(&pattern));
            let (Some(cell), None) = (meant.next(), meant.next()) else { continue };
            if cell.published()?.tag == *tag || cell.tag.as_ref() == Some(tag) {
                affected.entry(cell.line).or_default().push(cell);
            } else {
                repairs.changed.insert(cell.name.clone());
            }
        }
        let revisions = affected.into_iter().map(|(line, cells)| self.revision(line, &cells));
        repairs.revisions = revisions.collect();
        Ok(repairs)
    }

    /// Returns the revisions of a version of which some cells are built anew. Those of other systems stay.
    fn revision(&self, line: usize, affected: &[&Cell]) -> NewRevision {
        let of_version = self.cells.iter().filter(|cell| cell.line == line);
        let kept = of_version.filter(|cell| !cell.revision.is_empty());
        let mut revision: BTreeMap<System, String> =
            kept.map(|cell| (cell.name.system.clone(), cell.revision.clone())).collect();
        let new = affected.iter().map(|cell| (cell.name.system.clone(), next(&cell.revision)));
        revision.extend(new);
        let cells = affected.iter().map(|cell| cell.name.clone()).collect();
        NewRevision { line, cells, revision }
    }
}

/// Returns the revision after another one: `2`, `3`, `zlib-r2`.
fn next(revision: &str) -> String {
    if revision.is_empty() {
        return "2".to_owned();
    }
    let following = |number: &str| number.parse::<u32>().ok()?.checked_add(1);
    if let Some(number) = following(revision) {
        return number.to_string();
    }
    match revision.rsplit_once("-r").and_then(|(word, number)| Some((word, following(number)?))) {
        Some((word, number)) => format!("{word}-r{number}"),
        None => format!("{revision}-r2"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_followed_by_one_that_was_not_used() {
        for (one, other) in
            [("", "2"), ("2", "3"), ("zlib-1.3.1", "zlib-1.3.1-r2"), ("zlib-r9", "zlib-r10")]
        {
            assert_eq!(next(one), other);
        }
    }
}
