// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Checks of images.
//!
//! [`check`] runs the checks of the recipe, those that need no writing, and suites of `ReFrame`, on this
//! machine or through Slurm, and returns a [`CheckReport`]. Of four outcomes none becomes another one: the image passed,
//! it failed, the infrastructure failed, or nothing was tested.

#![forbid(unsafe_code)]

mod bench;
mod builtin;
mod host;
mod judge;
mod junit;
mod outcome;
mod request;
mod results;
mod statement;
mod subject;
mod suite;

pub use builtin::{Builtin, builtins};
pub use junit::junit;
pub use outcome::{CheckReport, CheckResult, Source};
pub use request::{CheckRequest, Place, check};
pub use results::{
    Better, Ratio, Results, Row, RowAnswer, RowDescription, TestResult, read_rows, results_page,
    rows,
};
pub use statement::test_statement;
pub use subject::Subject;
pub use suite::{Suite, SuiteRequest};
