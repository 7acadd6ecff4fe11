// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What came of all cells.

use cabane_evidence::Outcome;
use cabane_label::Digest;
use serde::Serialize;

use crate::cell::{Cell, CellName};
use crate::directory::RunDirectory;
use crate::stage::{Stage, StageResult};

/// What came of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellSummary {
    /// The cell.
    pub cell: CellName,
    /// What came of it as a whole; nothing if nothing was done.
    pub outcome: Option<Outcome>,
    /// The sha256 of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What came of each stage.
    pub stages: Vec<StageResult>,
}

impl CellSummary {
    /// Sums up what a run has of a cell.
    #[must_use]
    pub fn of(run: &RunDirectory, cell: &Cell) -> Self {
        let stages: Vec<StageResult> =
            Stage::ALL.iter().filter_map(|stage| run.result(cell, *stage)).collect();
        let outcomes = stages.iter().map(|one| one.outcome);
        let is_untested =
            stages.iter().any(|one| one.stage == Stage::Check && one.outcome == Outcome::NotTested);
        let outcome = match Outcome::of_all(outcomes) {
            // That it was built is no test.
            Outcome::Passed if is_untested => Outcome::NotTested,
            outcome => outcome,
        };
        Self {
            cell: cell.name.clone(),
            outcome: (!stages.is_empty()).then_some(outcome),
            digest: stages.iter().find_map(|one| one.digest.clone()),
            stages,
        }
    }

    /// Returns what came of a stage.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<&StageResult> {
        self.stages.iter().find(|one| one.stage == stage)
    }

    /// Returns the stage that decided the outcome, if that is not a success.
    #[must_use]
    pub fn culprit(&self) -> Option<&StageResult> {
        let outcome = self.outcome.filter(|outcome| *outcome != Outcome::Passed)?;
        self.stages.iter().find(|one| one.outcome == outcome)
    }
}
