// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence prune`.

use cabane_report::Result;
use cabane_transfer::prune_evidence;
use clap::Args;

use super::ls::WhereArgs;
use crate::setup::Setup;

/// Remove old statements
#[derive(Debug, Args)]
#[command(after_help = "\
Of each tester and system, the newest statements stay. A failure stays until
the image passes.")]
pub(crate) struct PruneArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// How many statements stay
    #[arg(long, value_name = "N", default_value = "20")]
    keep_last: usize,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn prune(setup: &Setup, args: &PruneArgs) -> Result<()> {
    let (found, connection) = args.place.find(setup, &args.image)?;
    let count = prune_evidence(setup, connection.as_ref(), &found, args.keep_last)?;
    let statements = if count == 1 { "statement" } else { "statements" };
    setup.note(format_args!("{}: removed {count} {statements}", found.name));
    Ok(())
}
