// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images of Slurm jobs.
//!
//! [`submit()`] resolves them where a job is submitted, [`record()`] writes down what a step has,
//! [`collect_failures`] tells the failures of many nodes as one, and [`install()`] and
//! [`check_machine`] are for administrators.

#![forbid(unsafe_code)]

mod check;
mod containers;
mod failures;
mod inherited;
mod install;
mod record;
mod request;
mod submission;
mod variants;

pub use check::{Checked, check_machine, find_record_file, has_plugin};
pub use containers::ContainerRequest;
pub use failures::{collect_failures, tell_failure};
pub use install::{InstallRequest, Installed, install};
pub use record::{Destination, DestinationError, record};
pub use request::{Passthrough, Submission};
pub use submission::submit;
