// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence add`.

use std::path::PathBuf;

use cabane_label::escape;
use cabane_registry::PublicKey;
use cabane_report::Result;
use cabane_transfer::{add_statements, find_evidence};
use clap::Args;

use crate::setup::Setup;
use crate::table::counted;

/// Add signed statements in files to the repositories that have the image
#[derive(Debug, Args)]
#[command(after_help = "\
Use it for statements from a machine that shares no repository and no registry with
this one. `cabane evidence export` writes the files there.

Each statement must be about this image, and signed with the key of a tester or builder
in the configuration, or with a key of --key. If one file is rejected, none is added.
Statements that a repository already has are not added again.

Examples:
  cabane evidence add prgenv-gnu/25.6 results/*.sigstore.json
  cabane evidence add prgenv-gnu/25.6 results/*.sigstore.json --key tests.pub")]
pub(crate) struct AddArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// Files with signed statements: bundles of Sigstore, version 0.3
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also accept statements that are signed with this public key. Repeatable
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

pub(crate) fn add(setup: &Setup, args: &AddArgs) -> Result<()> {
    let keys = args.key.iter().map(|path| PublicKey::read(path)).collect::<Result<Vec<_>, _>>()?;
    let found = find_evidence(setup, None, &args.image)?;
    let name = escape(&found.name);
    for kept in add_statements(setup, &found, &args.files, &keys)? {
        let (added, repository) = (counted(kept.added, "statement"), escape(&kept.repository));
        setup.note(format_args!("{name}: added {added} to the repository `{repository}`"));
    }
    Ok(())
}
