// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What to change in a pipeline so that it rebuilds an image.

use cabane_label::{LabelPattern, Tag};
use cabane_report::Result;
use serde::Serialize;

use crate::cell::{Cell, CellName};
use crate::pipeline::Pipeline;

/// How to make a pipeline rebuild an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Repair {
    /// The cell of the image.
    pub cell: CellName,
    /// The line of the version in the file of the pipeline, from 1.
    pub line: usize,
    /// The revision that rebuilds the image on this system. `None` if the cell has changed since the
    /// image was built, so that the next run builds another one anyway.
    pub revision: Option<u32>,
}

impl Pipeline {
    /// Says how to rebuild the image of a label; `None` if no cell builds it, or the label is not whole.
    ///
    /// # Errors
    ///
    /// None: the digits of a sum are a tag.
    pub fn repair(&self, label: &str) -> Result<Option<Repair>> {
        let Ok(pattern) = label.parse::<LabelPattern>() else { return Ok(None) };
        let Some(tag) = &pattern.tag else { return Ok(None) };
        let mut meant = self.cells.iter().filter(|cell| cell.name.matches(&pattern));
        let (Some(cell), None) = (meant.next(), meant.next()) else { return Ok(None) };
        let is_current = cell.is_tag_of_now(tag)?;
        let revision = is_current.then(|| cell.next_revision());
        Ok(Some(Repair { cell: cell.name.clone(), line: cell.line, revision }))
    }
}

impl Cell {
    /// Whether an image with a tag may be what the cell is built from now.
    fn is_tag_of_now(&self, tag: &Tag) -> Result<bool> {
        Ok(self.published()?.tag == *tag || self.tag.as_ref() == Some(tag))
    }

    fn next_revision(&self) -> u32 {
        self.revision.parse::<u32>().map_or(2, |number| number.saturating_add(1))
    }
}
