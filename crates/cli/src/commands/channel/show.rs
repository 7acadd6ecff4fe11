// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane channel ls` and `show`.

use std::fmt::Display;

use cabane_channel::{ChannelDocument, VerifiedChannel, place_of, read_channel, today};
use cabane_label::{ChannelPattern, escape};
use cabane_registry::ChannelPlace;
use cabane_release::document;
use cabane_report::{Kind, Report, Result, size};
use clap::Args;
use serde_json::{Value, json};

use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// List the channels of the configuration
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Show the images that a channel releases
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane channel show stable
  cabane channel show deploy::stable@daint
  cabane channel show stable.41

`*` marks the version that the name without a version means: `prgenv-gnu:stable`.")]
pub(crate) struct ShowArgs {
    /// The channel, such as stable or `deploy::stable@daint`; stable.41 is an earlier state
    channel: ChannelPattern,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let columns = ["channel", ">number", ">images", "issued", "expires", "note"];
    let mut table = Table::new(&columns);
    let mut values = Vec::new();
    for setting in &setup.settings.channels {
        let typed = ChannelPattern {
            namespace: Some(setting.namespace.clone()),
            name: setting.name.clone(),
            serial: None,
            system: None,
        };
        let (setting, place) = place_of(setup, &typed)?;
        let found = match read_channel(setup, &connection.registry, setting, &place) {
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            found => found.map(Some),
        };
        push_row(&mut table, &place, &found, &mut values);
    }
    if args.json {
        setup.printer.json(&values);
    } else {
        setup.printer.data(table);
    }
    Ok(())
}

fn push_row(
    table: &mut Table,
    place: &ChannelPlace,
    found: &Result<Option<VerifiedChannel>, Report>,
    values: &mut Vec<Value>,
) {
    let none: &dyn Display = &"-";
    match found {
        Ok(Some(found)) => {
            let document = &found.document;
            let (issued, expires) = (date(document.issued), date(document.expires));
            let images = document.entries.len();
            table.push(&[place, &document.serial, &images, &issued, &expires, &""]);
            values.push(json!({
                "channel": place.to_string(), "serial": document.serial, "images": images,
                "issued": document.issued, "expires": document.expires,
            }));
        }
        Ok(None) => {
            table.push(&[place, none, none, none, none, &"not in the registry yet"]);
            values.push(json!({ "channel": place.to_string(), "serial": null }));
        }
        Err(error) => {
            table.push(&[place, none, none, none, none, error]);
            values.push(json!({ "channel": place.to_string(), "error": error.to_string() }));
        }
    }
}

pub(crate) fn show(setup: &Setup, args: &ShowArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let found = document(setup, &connection, &args.channel)?;
    if args.json {
        setup.printer.json(&value_of(&found));
        return Ok(());
    }
    let document = &found.document;
    let (place, serial) = (document.place(), document.serial);
    setup.printer.data(format_args!(
        "{place}, number {serial}, signed on {} with {}, expires on {}\n\n",
        date(document.issued),
        found.key.display(),
        date(document.expires)
    ));
    setup.printer.data(entries(document));
    let mut rest = String::new();
    for revoked in &document.revoked {
        let (label, day, reason) = (&revoked.label, revoked.date, escape(&revoked.reason));
        rest += &format!("revoked on {day}: {label} ({}): {reason}\n", revoked.digest.id());
    }
    for waiver in &document.waivers {
        let (by, reason) = (escape(&waiver.by), escape(&waiver.reason));
        let (rule, label, until) = (escape(&waiver.rule), &waiver.label, waiver.until);
        rest += &format!("{rule} is waived for {label} until {until}, by {by}: {reason}\n");
    }
    if !rest.is_empty() {
        setup.printer.data(format_args!("\n{rest}"));
    }
    Ok(())
}

fn entries(document: &ChannelDocument) -> Table {
    let mut table = Table::new(&["label", "", "id", ">size", "since", "state"]);
    for entry in &document.entries {
        let mark = if entry.is_default { "*" } else { "" };
        let (id, bytes) = (entry.digest.id(), size(entry.size));
        let since = date(entry.promoted);
        let mut state = entry.state(today()).to_string();
        if let Some(retirement) = &entry.retirement {
            state += &format!(", {}", retirement.date);
            if let Some(replacement) = &retirement.replacement {
                state += &format!(", use {replacement}");
            }
        }
        table.push(&[&entry.label, &mark, &id, &bytes, &since, &state]);
    }
    table
}

fn value_of(found: &VerifiedChannel) -> Value {
    let mut value = json!(found.document);
    let states = found.document.entries.iter().map(|entry| entry.state(today()));
    for (number, state) in states.enumerate() {
        if let Some(entry) = value.pointer_mut(&format!("/entries/{number}")) {
            entry["state"] = json!(state);
        }
    }
    value["key"] = json!(found.key);
    value["sha256"] = json!(found.digest);
    value
}

/// A time as people compare it.
pub(super) fn date(time: jiff::Timestamp) -> String {
    time.strftime("%F").to_string()
}
