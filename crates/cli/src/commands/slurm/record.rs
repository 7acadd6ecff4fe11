// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm record`: what the plugin starts on the first node of a step, where a site wants
//! records.

use cabane_job::{Destination, record as record_step};
use cabane_report::Result;
use clap::Args;

/// Record the images of a job step
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The descriptor from which it is read what there is to record
    #[arg(long, value_name = "NUMBER")]
    from: i32,
    /// Where the record goes
    #[arg(long, value_name = "DESTINATION")]
    to: Destination,
}

pub(crate) fn record(args: &RecordArgs) -> Result<()> {
    record_step(args.from, args.to.clone())
}
