// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane self update`: this program is replaced by a newer release.

use cabane_report::Result;
use cabane_self_update::{Version, plan};
use clap::{Args, Subcommand};

use crate::setup::Setup;

#[derive(Debug, Subcommand)]
pub(crate) enum SelfCommand {
    /// Install a newer release of Cabane
    Update(UpdateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane self update
  cabane self update --dry-run
  cabane self update cabane-1.2.3-linux-x86_64.tar.gz
  sudo cabane self update https://example.org/cabane

This works if `install.sh` of an archive installed Cabane. If a package manager
did, the error shows its command. A directory or URL has the archives and their
SHA256SUMS; the newest one for this processor is installed if it is newer.
`update.source` in config.toml sets the default, and with `update.keys`, the
signature SHA256SUMS.sig is required. Running commands and mounted images are
not disturbed.")]
pub(crate) struct UpdateArgs {
    /// An archive, a directory with archives, or an https URL. Default: `update.source` of the configuration
    from: Option<String>,
    /// Show what would be installed, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn self_command(setup: &Setup, command: &SelfCommand) -> Result<()> {
    let SelfCommand::Update(args) = command;
    let running = Version::running();
    let Some(plan) = plan(setup, args.from.as_deref())? else {
        setup.note(format_args!("cabane {running} is the newest release there"));
        return Ok(());
    };
    let (version, prefix) = (plan.version, plan.prefix.display());
    if args.dry_run {
        setup.note(format_args!("cabane {version} would replace {running} below {prefix}"));
        return Ok(());
    }
    plan.install()?;
    setup.note(format_args!("cabane {version} replaces {running}"));
    Ok(())
}
