// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether and how a program can have another MPI.
//!
//! First comes what can be told from the files alone (`candidate.rs`), then a way is looked for
//! (`choose.rs`).

use crate::Loader;
use crate::candidate::{Candidate, Side};
use crate::inspect::inspect_file;
use crate::plan::Places;
use crate::verdict::{Outcome, Refusal, Verdict};

/// Judges whether a program can have a substitute.
#[must_use]
pub fn judge(program: Side<'_>, substitute: Side<'_>, places: &Places) -> Verdict {
    let loader = Loader::new(program.tree).library_path(program.library_path);
    let outcome = Outcome::Refused(Refusal::NoProgram { path: program.path.to_owned() });
    let mut verdict = Verdict { from: None, to: None, outcome, warnings: Vec::new() };
    let Some(inspection) = inspect_file(program.tree, &loader, program.path) else {
        return verdict;
    };
    verdict.from.clone_from(&inspection.library);
    let judged = Candidate::find(&inspection, substitute).and_then(|candidate| {
        verdict.to = Some(candidate.core.clone());
        candidate.check(&inspection)?;
        candidate.choose(program, &inspection, places)
    });
    match judged {
        Ok((plan, warnings)) => {
            verdict.outcome = Outcome::Possible(plan);
            verdict.warnings = warnings;
        }
        Err(refusal) => verdict.outcome = Outcome::Refused(refusal),
    }
    verdict
}
