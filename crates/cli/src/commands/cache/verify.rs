// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache verify`: packages, their checksums, and their signatures.

use std::path::{Path, PathBuf};

use cabane_builder::{Verified, verify_cache};
use cabane_image_build::package_keys;
use cabane_label::{escape, shown};
use cabane_report::Result;
use clap::Args;
use serde_json::json;

use super::CacheArgs;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Compare packages with their checksums, and check their signatures
#[derive(Debug, Args)]
#[command(after_help = "\
Signatures are checked with the keys of --key. For the shared cache, the keys of the
configuration are the default. The exit code is 1 if a package is damaged and stays, or has
no valid signature. With --repair, damaged packages are removed, and the next stack that
needs one builds it.

Examples:
  cabane cache verify
  cabane cache verify --cache /apps/cabane/packages --key /etc/cabane/keys/packages.pub")]
pub(crate) struct VerifyArgs {
    /// Remove damaged packages
    #[arg(long)]
    repair: bool,
    /// A public key; a package needs a valid signature of one of them
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn verify(setup: &Setup, args: &VerifyArgs) -> Result<ExitCode> {
    let directory = args.cache.directory(setup)?;
    let keys = package_keys(keys(setup, args, directory))?;
    let verified = verify_cache(directory, keys.as_deref(), args.repair)?;
    if args.json {
        let Verified { packages, damaged, untrusted } = &verified;
        setup.printer.json(&json!({
            "packages": packages,
            "damaged": damaged,
            "untrusted": untrusted,
            "repaired": args.repair,
        }));
    }
    for one in &verified.damaged {
        let id = format!("{}@{}", one.name, one.version);
        let (id, problem) = (escape(&id), escape(&one.problem));
        let what = if args.repair { "removed" } else { "damaged" };
        let place = one.mount_point.as_deref().map(|path| format!(" for {}", shown(path)));
        setup.note(format_args!("{what} {id}{}: {problem}", place.unwrap_or_default()));
    }
    for one in &verified.untrusted {
        let id = format!("{}@{}", one.name, one.version);
        setup.note(format_args!("untrusted {}: {}", escape(&id), escape(&one.reason)));
    }
    let (damaged, untrusted) = (verified.damaged.len(), verified.untrusted.len());
    let signatures =
        keys.map_or_else(String::new, |_| format!(", without a valid signature: {untrusted}"));
    setup.note(format_args!("packages: {}, damaged: {damaged}{signatures}", verified.packages));
    if damaged > 0 && !args.repair {
        setup.hint("`cabane cache verify --repair` removes damaged packages");
    }
    if untrusted > 0 {
        setup.hint(
            "`cabane cache push DIRECTORY --key FILE` copies and signs packages of your cache",
        );
    }
    let is_good = (damaged == 0 || args.repair) && untrusted == 0;
    Ok(if is_good { exit_codes::SUCCESS } else { exit_codes::FAILURE })
}

/// Returns the files with the public keys whose signatures count; none if signatures are not checked.
fn keys<'a>(setup: &'a Setup, args: &'a VerifyArgs, directory: &Path) -> &'a [PathBuf] {
    let settings = &setup.settings;
    let is_shared = settings.shared_cache.value.as_deref() == Some(directory);
    if args.key.is_empty() && is_shared { &settings.shared_cache_keys.value } else { &args.key }
}
