// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane upgrade` and `cabane rollback`: names that follow a channel.

use cabane_label::LabelPattern;
use cabane_report::{Result, size};
use cabane_run::difference::PackageDifference;
use cabane_transfer::{Fate, NewImage, PlannedUpgrade, plan_upgrade};
use clap::Args;
use serde_json::{Value, json};

use crate::added::print_changes;
use crate::change::package_line;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Upgrade images that follow a channel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane upgrade --dry-run
  cabane upgrade prgenv-gnu

An image follows a channel if you pulled it by the name of the channel, as with `cabane image pull
prgenv-gnu:stable`. Only what changed is downloaded. Running jobs and sessions keep their image.
`cabane rollback NAME` returns to the image before.")]
pub(crate) struct UpgradeArgs {
    /// The names; default: everything that follows a channel
    names: Vec<LabelPattern>,
    /// Show what would change, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Undo the last upgrade
#[derive(Debug, Args)]
#[command(after_help = "\
The image is still in the repository, so nothing is downloaded. The next `cabane upgrade` moves the
name forward again; to stay with an image, use its own label, such as `prgenv-gnu/25.6:v1`.")]
pub(crate) struct RollbackArgs {
    /// The name, such as prgenv-gnu or prgenv-gnu:stable
    name: LabelPattern,
}

pub(crate) fn upgrade(setup: &Setup, args: &UpgradeArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let planned = plan_upgrade(setup, &connection, &args.names)?;
    if args.json {
        setup.printer.json(&planned.iter().map(value).collect::<Vec<_>>());
    } else {
        for one in &planned {
            show(setup, one);
        }
    }
    if planned.is_empty() {
        setup.note("nothing here follows a channel");
        setup.hint("`cabane image pull NAME:CHANNEL` gets an image that does");
    }
    if args.dry_run {
        return Ok(());
    }
    cabane_transfer::upgrade(setup, &connection, &planned, &mut |one, added| {
        print_changes(setup, added);
        let label = &added.record.label;
        setup.note(format_args!("{}:{} is {label} now", one.name, one.channel.name));
    })
}

fn show(setup: &Setup, one: &PlannedUpgrade) {
    let (name, channel, now) = (&one.name, &one.channel.name, &one.now.release.label);
    let text = match &one.fate {
        Fate::Unchanged(unchanged) => match unchanged.retired() {
            Some((date, replacement)) => {
                let instead = replacement.map(|other| format!("; use {other}")).unwrap_or_default();
                format!("{name}:{channel}: {now}, which is retired on {date}{instead}\n")
            }
            None => format!("{name}:{channel}: {now} is up to date\n"),
        },
        Fate::Nothing(nothing) => format!("{name}:{channel}: {now} stays: {}\n", nothing.error),
        Fate::New(new) => {
            let to = new.release();
            let to =
                if to.label == *now { to.digest.id().to_string() } else { to.label.to_string() };
            let bytes = size(new.bytes);
            let mut text = format!("{name}:{channel}: {now} -> {to}, {bytes} to download\n");
            if let Some(date) = new.retired() {
                text += &format!("  it is retired on {date}\n");
            }
            let packages = new.packages.iter().flatten();
            text += &packages.map(package_line).collect::<String>();
            text
        }
    };
    setup.printer.data(text);
}

fn value(one: &PlannedUpgrade) -> Value {
    let new = |new: &NewImage| {
        let to = new.release();
        json!({
            "label": to.label, "digest": to.digest, "bytes": new.bytes,
            "retired": new.retired(),
            "packages": new.packages.as_deref().map(<[PackageDifference]>::to_vec),
        })
    };
    json!({
        "name": one.name.to_string(),
        "channel": one.channel.to_string(),
        "from": one.now.release,
        "to": match &one.fate { Fate::New(image) => new(image), _ => Value::Null },
        "retired": match &one.fate {
            Fate::Unchanged(unchanged) => json!(unchanged.retired().map(|(date, _)| date)),
            _ => Value::Null,
        },
        "error": match &one.fate {
            Fate::Nothing(nothing) => json!(nothing.error.to_string()),
            _ => Value::Null,
        },
    })
}

pub(crate) fn rollback(setup: &Setup, args: &RollbackArgs) -> Result<()> {
    for one in cabane_transfer::roll_back(setup, &args.name)? {
        let (name, channel) = (&one.name, &one.channel);
        let (now, before) = (&one.now.label, &one.before.label);
        setup.note(format_args!("{name}:{channel} is {now} again, instead of {before}"));
    }
    Ok(())
}
