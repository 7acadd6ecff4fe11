// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Evidence: what was tested, and what was built from what, as signed statements about an image.
//!
//! [`SignedStatement`] is a [`Statement`] of in-toto with its signature, in the bundle that cosign 3
//! verifies. It is kept beside the image in a repository and attached to it in a registry.
//! [`EvidenceKeys`] says which statements count, and [`tested`] and [`built_from`] what they say together.
//! [`Provenance`] is what a builder says. [`compare()`] says what became of the figures of checks.

#![forbid(unsafe_code)]

mod bundle;
mod compare;
mod figure;
mod gather;
mod judge;
mod outcome;
mod provenance;
mod reframe;
mod statement;

pub use bundle::SignedStatement;
pub use compare::{
    ComparedFigure, Comparison, FigureName, FigureRun, FigureRuns, Figures, compare, figures, runs,
};
pub use figure::{Answer, Band, Direction, LEAST_RUNS, MOST_RUNS};
pub use gather::{Kept, attach, attached, bring, keep, keep_others, kept, too_many};
pub use judge::{
    BuiltFrom, Evidence, EvidenceKeys, Standing, Tested, Wanted, built_from, surplus, tested,
};
pub use outcome::{Host, LeftOut, Measured, Outcome};
pub use provenance::{
    BuildDefinition, Builder, IMAGE_BUILD, PROVENANCE, Provenance, RECIPE, Resource, RunDetails,
    RunMetadata,
};
pub use reframe::{
    ReframeReport, ReframeRun, ReportError, Session, Testcase, reduced, session_extras,
};
pub use statement::{
    ATTEMPT, Configuration, Details, Performance, Runner, Statement, StatementSubject, TEST_RESULT,
    TestError, Unmeasured,
};
