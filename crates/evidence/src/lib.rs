// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Evidence: what was tested, as signed statements about an image.
//!
//! [`SignedStatement`] is a [`Statement`] of in-toto with its signature, in the bundle that cosign 3
//! verifies. It is kept beside the image in a repository and attached to it in a registry.
//! [`EvidenceKeys`] says which statements count, and [`tested`] what they say together.

#![forbid(unsafe_code)]

mod bundle;
mod gather;
mod judge;
mod outcome;
mod reframe;
mod statement;

pub use bundle::SignedStatement;
pub use gather::{attach, attached, bring, keep, kept, too_many};
pub use judge::{Evidence, EvidenceKeys, Standing, Tested, Wanted, surplus, tested};
pub use outcome::{Host, Measured, Outcome};
pub use reframe::{
    ReframeReport, ReframeRun, ReportError, Session, Testcase, reduced, session_extras,
};
pub use statement::{
    ATTEMPT, Configuration, Details, Performance, Runner, Statement, StatementSubject, TEST_RESULT,
    TestError,
};
