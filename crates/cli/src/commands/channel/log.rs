// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane channel log` and `diff`.

use std::num::NonZeroUsize;

use cabane_channel::{ChannelDocument, changes};
use cabane_label::{ChannelPattern, escape};
use cabane_release::{HistoryEntry, document, history};
use cabane_report::Result;
use clap::Args;
use serde_json::{Value, json};

use super::text::{line, value};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::heading;

/// Show the history of a channel
#[derive(Debug, Args)]
#[command(after_help = "\
The newest state comes first. Each state is signed and names the one before it, so that none can be
changed or left out unnoticed.")]
pub(crate) struct LogArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// Show at most N states
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    max: NonZeroUsize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Compare two channels, or two states of a channel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane channel diff stable testing
  cabane channel diff stable.41 stable")]
pub(crate) struct DiffArgs {
    /// The channel or state before
    before: ChannelPattern,
    /// The channel or state after
    after: ChannelPattern,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn log(setup: &Setup, args: &LogArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let entries = history(setup, &connection, &args.channel, args.max.get())?;
    if args.json {
        setup.printer.json(&entries.iter().map(log_value).collect::<Vec<_>>());
        return Ok(());
    }
    let mut text = String::new();
    for entry in &entries {
        let document = &entry.channel.document;
        let time = document.issued.strftime("%F %T UTC");
        let (serial, by) = (document.serial, escape(&document.by));
        heading(&mut text, &format!("{serial}, {time}, {by}"));
        if let Some(reason) = &document.reason {
            text += &format!("  {}\n", escape(reason));
        }
        let before = before_of(entry);
        for change in changes(&before, document) {
            text += &format!("  {}\n", line(&change));
        }
    }
    setup.printer.data(text);
    Ok(())
}

fn log_value(entry: &HistoryEntry) -> Value {
    let document = &entry.channel.document;
    let before = before_of(entry);
    json!({
        "serial": document.serial,
        "issued": document.issued,
        "expires": document.expires,
        "by": document.by,
        "reason": document.reason,
        "key": entry.channel.key,
        "changes": changes(&before, document).iter().map(value).collect::<Vec<_>>(),
    })
}

fn before_of(entry: &HistoryEntry) -> ChannelDocument {
    let empty = || ChannelDocument::empty(&entry.channel.document.place());
    entry.before.clone().unwrap_or_else(empty)
}

pub(crate) fn diff(setup: &Setup, args: &DiffArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let before = document(setup, &connection, &args.before)?.document;
    let after = document(setup, &connection, &args.after)?.document;
    let changes = changes(&before, &after);
    if args.json {
        setup.printer.json(&changes.iter().map(value).collect::<Vec<_>>());
    } else {
        let lines = changes.iter().map(|change| line(change) + "\n");
        setup.printer.data(lines.collect::<String>());
    }
    Ok(())
}
