// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry usage`: what takes the space.

use cabane_label::{Namespace, escape};
use cabane_registry_admin::{By, Group, usage as sum_up};
use cabane_report::{Result, size};
use clap::{Args, ValueEnum};

use super::namespace;
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// Show how much space images take
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry usage
  cabane registry usage build --by user
  cabane registry usage --by month --json

An image with several labels counts once. `alone` is the size of the images that
are in no other group: the space that deleting the group would free. Users are
those of `cabane registry log`.")]
pub(crate) struct UsageArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    /// How to group the images
    #[arg(long, value_name = "KEY", default_value = "name")]
    by: Key,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// By what images are grouped.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Key {
    /// The name of the image
    Name,
    /// The user who pushed it
    User,
    /// The month in which it was pushed
    Month,
}

pub(crate) fn usage(setup: &Setup, args: &UsageArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let (by, head) = match args.by {
        Key::Name => (By::Name, "name"),
        Key::User => (By::User, "user"),
        Key::Month => (By::Month, "month"),
    };
    let usage = sum_up(setup, &connection, &namespace, by)?;
    if args.json {
        setup.printer.json(&usage);
        return Ok(());
    }
    let mut table = Table::new(&[head, ">labels", ">images", ">size", ">alone"]);
    let mut push = |key: &str, group: &Group| {
        let (bytes, own) = (size(group.bytes), size(group.own_bytes));
        table.push(&[&key, &group.labels, &group.images, &bytes, &own]);
    };
    for group in &usage.groups {
        push(&group.key.as_deref().map_or("-".into(), escape), group);
    }
    push("total", &usage.total);
    setup.printer.data(table);
    Ok(())
}
