// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build tells while it works.

use std::time::Duration;

use crate::Step;

/// Somebody who wants to know how a build goes on. Every method may be left out.
pub trait Progress {
    /// A step begins; the first has index 0.
    fn started(&mut self, step: &Step, index: usize, total: usize) {
        let _ = (step, index, total);
    }

    /// The step wrote a line, safe to show. Lines may be left out when they come
    /// fast: the log has them all.
    fn output(&mut self, step: &Step, line: &str) {
        let _ = (step, line);
    }

    /// The step is done.
    fn finished(&mut self, step: &Step, took: Duration) {
        let _ = (step, took);
    }

    /// The step had been done before.
    fn skipped(&mut self, step: &Step) {
        let _ = step;
    }

    /// Another build works in the same directory; this one waits for its end.
    fn waiting(&mut self, process: Option<u32>) {
        let _ = process;
    }

    /// Something that does not stop the build but that its user should know.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }
}

/// Nobody wants to know.
impl Progress for () {}
