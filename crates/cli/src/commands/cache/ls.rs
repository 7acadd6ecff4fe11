// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache ls`: what is in the cache.

use std::collections::BTreeMap;

use cabane_builder::{CachedItem, ItemKind};
use cabane_label::{escape, shown};
use cabane_report::{Result, size};
use clap::Args;

use super::CacheArgs;
use crate::setup::Setup;
use crate::table::Table;

/// List the packages, sources, and concretized specs in the build cache
#[derive(Debug, Args)]
#[command(after_help = "\
Packages are listed with the mount point they were built for. A stack at a mount point whose
path is not longer can use them. Downloads are counted, unless you add --all.

Examples:
  cabane cache ls
  cabane cache ls --packages --json")]
pub(crate) struct LsArgs {
    /// List packages only
    #[arg(long, conflicts_with = "all")]
    packages: bool,
    /// List each download and index
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let mut found = cabane_builder::inventory(args.cache.directory(setup)?);
    if args.packages {
        found.items.retain(|one| one.kind == ItemKind::Package);
    }
    if args.json {
        setup.printer.json(&found);
        return Ok(());
    }
    if found.items.is_empty() {
        let directory = shown(&found.directory);
        setup.note(format_args!("the cache {directory} is empty"));
        return Ok(());
    }
    let mut table = table();
    let mut counted: BTreeMap<ItemKind, (usize, u64, &CachedItem)> = BTreeMap::new();
    for one in &found.items {
        let is_counted = matches!(one.kind, ItemKind::Download | ItemKind::Index) && !args.all;
        if !is_counted {
            push(&mut table, one);
            continue;
        }
        let (count, bytes, last) = counted.entry(one.kind).or_insert((0, 0, one));
        *count += 1;
        *bytes += one.size;
        if one.used > last.used {
            *last = one;
        }
    }
    for (kind, (count, bytes, last)) in counted {
        let used = last.used.strftime("%F");
        table.push(&[&kind.name(), &format!("{count} files"), &"", &size(bytes), &used, &""]);
    }
    setup.printer.data(table);
    setup.note(format_args!("{}: {}", shown(&found.directory), size(found.size)));
    Ok(())
}

/// Makes a table for items.
pub(super) fn table() -> Table {
    Table::new(&["kind", "name", "hash", ">size", "used", "mount point"])
}

/// Adds an item to a table.
pub(super) fn push(table: &mut Table, one: &CachedItem) {
    let hash: String = one.hash.iter().flat_map(|hash| hash.chars().take(7)).collect();
    let mount_point = one.mount_point.as_deref().map(shown);
    table.push(&[
        &one.kind.name(),
        &escape(&name(one)),
        &escape(&hash),
        &size(one.size),
        &one.used.strftime("%F"),
        &mount_point.unwrap_or_default(),
    ]);
}

/// Returns what an item is called: a package with its version.
pub(super) fn name(one: &CachedItem) -> String {
    match &one.version {
        Some(version) => format!("{}@{version}", one.name),
        None => one.name.clone(),
    }
}
