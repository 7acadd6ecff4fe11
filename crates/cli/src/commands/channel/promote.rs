// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane channel promote`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::ChannelPattern;
use cabane_recipe::parse_time;
use cabane_release::{Manager, ManagerRequest, PromoteRequest, Promotion, plan_promotion};
use cabane_report::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::exit_codes::{self, ExitCode};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// The one who signs.
#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    /// Your name in the history; default: your user name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// How long clients accept this state without a warning
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "90d")]
    lifetime: Duration,
}

impl ManagerArgs {
    pub(crate) fn manager(
        &self,
        setup: &Setup,
        key: &Path,
        reason: Option<&String>,
    ) -> Result<Manager> {
        let request = ManagerRequest {
            key: key.to_owned(),
            by: self.by.clone(),
            reason: reason.cloned(),
            lifetime: self.lifetime,
        };
        request.manager(setup)
    }
}

/// Release images through a channel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane channel promote testing prgenv-gnu/25.6:v2 --key release.key
  cabane channel promote stable prgenv-gnu/25.6:testing --dry-run
  cabane channel promote stable prgenv-gnu/25.6:testing --key release.key --reason \"tests passed\"

The images must fulfill the rules of the channel in the configuration. With --dry-run, the command
shows the evidence for each rule. If a rule fails, nothing is promoted and the exit code is 13.")]
pub(crate) struct PromoteArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The images: labels, IDs, digests, or NAME:CHANNEL
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Show the rules with their evidence, and stop
    #[arg(long)]
    dry_run: bool,
    /// Whether the name without a version means this version; by default, if none is newer
    #[arg(long = "default", value_name = "BOOLEAN")]
    is_default: Option<bool>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    key: Option<PathBuf>,
    #[command(flatten)]
    manager: ManagerArgs,
    /// Print the rules as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn promote(setup: &Setup, args: &PromoteArgs) -> Result<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let request = PromoteRequest {
        channel: args.channel.clone(),
        images: args.images.clone(),
        is_default: args.is_default,
    };
    let promotions = plan_promotion(setup, &connection, &request)?;
    if args.json {
        setup.printer.json(&promotions.iter().map(value).collect::<Vec<_>>());
    } else if args.dry_run || !promotions.iter().all(Promotion::is_permitted) {
        setup.printer.data(table(&promotions));
    }
    let Some(key) = args.key.as_ref().filter(|_| !args.dry_run) else {
        let is_permitted = promotions.iter().all(Promotion::is_permitted);
        return Ok(if is_permitted { exit_codes::SUCCESS } else { exit_codes::REJECTED });
    };
    let manager = args.manager.manager(setup, key, args.reason.as_ref())?;
    let published = cabane_release::promote(setup, &connection, &manager, &request, &promotions)?;
    let (place, serial) = (published.document.place(), published.document.serial);
    for promotion in &promotions {
        let (label, id) = (&promotion.image.place.label, promotion.image.digest.id());
        let replaces = promotion.replaces.as_ref().filter(|old| *old != label);
        let replaces = replaces.map(|old| format!(" instead of :{}", old.tag)).unwrap_or_default();
        let entry = published.document.entry(label);
        let meaning = if entry.is_some_and(|entry| entry.is_default) {
            format!("; {}:{} means it", label.name, place.name)
        } else {
            String::new()
        };
        setup.note(format_args!(
            "{place}, number {serial}, releases {label} ({id}){replaces}{meaning}"
        ));
        if let Some(retirement) = entry.and_then(|entry| entry.retirement.as_ref()) {
            let (name, version, date) = (&label.name, &label.version, retirement.date);
            setup.note(format_args!("{name}/{version} stays retired on {date}"));
            setup.hint(format_args!(
                "`cabane channel retire {place} {name}/{version} --cancel --key FILE` keeps it"
            ));
        }
    }
    Ok(exit_codes::SUCCESS)
}

fn table(promotions: &[Promotion]) -> Table {
    let mut table = Table::new(&["image", "id", "rule", "outcome", "evidence"]);
    for promotion in promotions {
        for verdict in &promotion.verdicts {
            let (label, id) = (&promotion.image.place.label, promotion.image.digest.id());
            table.push(&[label, &id, &verdict.rule, &verdict.outcome, &verdict.evidence]);
        }
    }
    table
}

fn value(promotion: &Promotion) -> Value {
    json!({
        "label": promotion.image.place.label,
        "digest": promotion.image.digest,
        "manifest": promotion.image.manifest,
        "replaces": promotion.replaces,
        "unchanged": promotion.is_there,
        "default": promotion.is_default,
        "permitted": promotion.is_permitted(),
        "rules": promotion.verdicts,
    })
}
