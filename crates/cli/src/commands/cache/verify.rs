// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache verify`: packages and their checksums.

use cabane_builder::verify_cache;
use cabane_label::{escape, shown};
use cabane_report::Result;
use clap::Args;
use serde_json::json;

use super::CacheArgs;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Compare packages with their checksums
#[derive(Debug, Args)]
#[command(after_help = "\
The exit code is 1 if a package is damaged and stays. With --repair, damaged packages are
removed, and the next stack that needs one builds it.")]
pub(crate) struct VerifyArgs {
    /// Remove damaged packages
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn verify(setup: &Setup, args: &VerifyArgs) -> Result<ExitCode> {
    let (count, damaged) = verify_cache(args.cache.directory(setup)?, args.repair)?;
    if args.json {
        setup
            .printer
            .json(&json!({"packages": count, "damaged": damaged, "repaired": args.repair}));
    }
    for one in &damaged {
        let id = format!("{}@{}", one.name, one.version);
        let (id, problem) = (escape(&id), escape(&one.problem));
        let what = if args.repair { "removed" } else { "damaged" };
        let place = one.mount_point.as_deref().map(|path| format!(" for {}", shown(path)));
        setup.note(format_args!("{what} {id}{}: {problem}", place.unwrap_or_default()));
    }
    setup.note(format_args!("packages: {count}, damaged: {}", damaged.len()));
    if damaged.is_empty() || args.repair {
        return Ok(exit_codes::SUCCESS);
    }
    setup.hint("`cabane cache verify --repair` removes damaged packages");
    Ok(exit_codes::FAILURE)
}
