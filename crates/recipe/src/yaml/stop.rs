// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where reading ends.

use crate::node::Place;
use crate::report::Report;

/// Reading ends here; the reason is in the report.
#[derive(Debug)]
pub(super) struct Stop;

/// Says why reading ends.
pub(super) fn stop(report: &mut Report<'_>, place: Place, message: &str, hint: &str) -> Stop {
    report.problem_with_hint(place, message, hint);
    Stop
}
