// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry log`: which label got which image when.

use std::time::Duration;

use cabane_label::{Digest, Label, LabelPattern, NameMatch, escape};
use cabane_recipe::parse_time;
use cabane_report::Result;
use clap::Args;
use jiff::Timestamp;

use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// Show which labels moved to which images, when, and by whom
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry log --since 7d
  cabane registry log prgenv-gnu
  cabane registry log 'build::@*' --json

`image push`, `copy`, `delete`, and `registry mirror` write the log. A change without a user was
made by another tool, and found later. Nobody signs the log: anyone with the right to push can
write to it. `cabane channel log` shows what is signed.")]
pub(crate) struct LogArgs {
    /// Only these labels; a part that is left out matches everything
    #[arg(value_name = "LABEL")]
    pattern: Option<LabelPattern>,
    /// Only changes within this time, such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn log(setup: &Setup, args: &LogArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let namespace = connection.namespace_of(args.pattern.as_ref());
    let since = args.since.and_then(|time| Timestamp::now().checked_sub(time).ok());
    let watched = setup.counted("reading the log");
    let registry = &connection.registry;
    let entries = registry.log_since(&namespace, since, &mut |at, all| watched.show(at, all));
    watched.end();
    let fits = |label: &Label| {
        args.pattern.as_ref().is_none_or(|one| one.matches(label, NameMatch::Exact))
    };
    let mut entries = entries?;
    entries.retain(|entry| fits(&entry.label));
    if args.json {
        setup.printer.json(&entries);
        return Ok(());
    }
    let id = |digest: &Option<Digest>| match digest {
        Some(digest) => digest.id().to_string(),
        None => "-".to_owned(),
    };
    let mut table = Table::new(&["time", "label", "before", "after", "by"]);
    for entry in &entries {
        let time = entry.time.strftime("%F %TZ").to_string();
        let by = entry.by.as_deref().map_or("-".into(), escape);
        table.push(&[&time, &entry.label, &id(&entry.before), &id(&entry.after), &by]);
    }
    setup.printer.data(table);
    Ok(())
}
