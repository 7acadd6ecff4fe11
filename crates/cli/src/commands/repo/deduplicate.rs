// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane repo deduplicate`: what images share is kept once.

use std::path::PathBuf;
use std::time::Duration;

use cabane_label::shown_word;
use cabane_recipe::parse_time;
use cabane_report::{Result, size};
use cabane_repository::{Deduplicated, Repository, Stored};
use clap::Args;

use crate::commands::repo::maintain::repository_at;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Store parts that images share only once
#[derive(Debug, Args)]
#[command(after_help = "\
The command replaces the files of unused images with lists of their parts. Images of the
same name share most parts. An image is assembled again when you use it: by its owner in the
repository, by other users in their caches. The oldest image of a name stays a file, and so
do images that are in use on this host, and restricted ones.

Examples:
  cabane repo deduplicate
  cabane repo deduplicate --older-than 30d /shared/cabane/repository")]
pub(crate) struct DeduplicateArgs {
    /// The repository; default: the one for new images
    path: Option<PathBuf>,
    /// Deduplicate images unused for this long, such as 30d or 12w
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "7d")]
    older_than: Duration,
}

pub(crate) fn deduplicate(setup: &Setup, args: &DeduplicateArgs) -> Result<ExitCode> {
    let repository = repository_at(setup, args.path.as_deref())?;
    deduplicate_unused(setup, &repository, args.older_than)?;
    Ok(exit_codes::SUCCESS)
}

/// Deduplicates what was not used for some time, and prints what was done.
pub(crate) fn deduplicate_unused(
    setup: &Setup,
    repository: &Repository,
    unused: Duration,
) -> Result<()> {
    let (mut count, mut before, mut after) = (0, 0, 0);
    repository.deduplicate(unused, &mut |one: &Deduplicated| {
        let (label, bytes) = (&one.record.label, one.record.size);
        match &one.stored {
            Stored::Parts { new } => {
                let (whole, new) = (size(bytes), size(*new));
                setup.note(format_args!("deduplicated {label}: {new} of {whole} are its own"));
            }
            Stored::Foreign => {
                setup.note(format_args!("kept {label}: its file belongs to another user"));
            }
            Stored::InUse => setup.note(format_args!("kept {label}: in use on this host")),
            Stored::Damaged => {
                setup.warning(format_args!("kept {label}: its file is damaged"));
                let path = shown_word(repository.path());
                setup.hint(format_args!(
                    "`cabane repo status --verify {path}` shows how to repair it"
                ));
            }
            Stored::Base | Stored::Already | Stored::Recent | Stored::Restricted => {}
        }
        if let Stored::Parts { new } = one.stored {
            count += 1;
            before += bytes;
            after += new;
        }
    })?;
    let saved = size(before.saturating_sub(after));
    setup.note(format_args!("images deduplicated: {count} ({saved} freed)"));
    Ok(())
}
