// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Processes on other nodes that build packages for a build.

use std::ffi::OsString;

/// How a worker is started: a command that runs [`crate::work_on_packages`] with its standard input and
/// output.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// What it is called until it says on which node it runs.
    pub name: String,
    /// The program and its arguments.
    pub words: Vec<OsString>,
}
