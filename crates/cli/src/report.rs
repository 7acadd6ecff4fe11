// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a command fails.

use cabane_label::escape;
pub(crate) use cabane_report::{IoContext, Kind, Report};

use crate::printer::Printer;

/// What a command returns.
pub(crate) type CommandResult<T = ()> = cabane_report::Result<T>;

/// Prints a failure with its details, causes and hints.
pub(crate) fn print(report: &Report, printer: Printer) {
    printer.error(&report.to_string());
    if let Some(detail) = report.detail() {
        printer.lines(detail);
    }
    for cause in report.causes() {
        // What it says may come from outside.
        let text = cause.to_string();
        let lines: Vec<_> = text.lines().map(escape).collect();
        printer.cause(&lines.join("\n"));
    }
    for hint in report.hints() {
        printer.hint(hint);
    }
}
