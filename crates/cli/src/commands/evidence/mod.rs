// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence`: signed statements about images.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod add;
mod attach;
mod compare;
mod ls;
mod prune;
mod report;

/// What can be done with evidence.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum EvidenceCommand {
    /// List what was tested and built, when, where, and by whom
    Ls(ls::LsArgs),
    /// Show one statement
    Show(ls::ShowArgs),
    /// Check whether an image passed its tests, or where its recipe comes from
    Verify(ls::VerifyArgs),
    /// Compare the figures of an image with those of the previous image
    Compare(compare::CompareArgs),
    /// Report the newest results of all tests, with figures and plots
    Report(report::ReportArgs),
    /// Add signed statements in files to the repositories that have the image
    Add(add::AddArgs),
    /// Attach signed statements or reports to an image of a registry
    Attach(attach::AttachArgs),
    /// Write the signed statements and reports of an image to files
    Export(attach::ExportArgs),
    /// Remove old statements
    Prune(prune::PruneArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn evidence(setup: &Setup, command: &EvidenceCommand) -> Result<ExitCode> {
    let done = |outcome: Result<()>| outcome.map(|()| exit_codes::SUCCESS);
    match command {
        EvidenceCommand::Ls(args) => done(ls::ls(setup, args)),
        EvidenceCommand::Show(args) => done(ls::show(setup, args)),
        EvidenceCommand::Verify(args) => ls::verify(setup, args),
        EvidenceCommand::Compare(args) => done(compare::compare(setup, args)),
        EvidenceCommand::Report(args) => done(report::report(setup, args)),
        EvidenceCommand::Add(args) => done(add::add(setup, args)),
        EvidenceCommand::Attach(args) => done(attach::attach(setup, args)),
        EvidenceCommand::Export(args) => done(attach::export(setup, args)),
        EvidenceCommand::Prune(args) => done(prune::prune(setup, args)),
    }
}
