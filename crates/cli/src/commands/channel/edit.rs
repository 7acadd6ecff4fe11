// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane channel rollback`, `retire`, `revoke`, `waive`, and `renew`.

use std::path::PathBuf;

use cabane_label::{ChannelPattern, LabelPattern};
use cabane_release::{Retire, Waive, WaivedRule};
use cabane_report::Result;
use clap::Args;
use jiff::civil::Date;

use super::promote::ManagerArgs;
use super::show::date;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Restore an earlier state of a channel
#[derive(Debug, Args)]
#[command(after_help = "\
The earlier images are published again under a new number; clients never accept an older number.
Revoked images stay revoked.")]
pub(crate) struct RollbackArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The number of the state; default: the one before the current one
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Announce that a channel stops releasing an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane channel retire stable prgenv-gnu/24.11 --on 2027-03-01 --use prgenv-gnu/25.6 --key release.key
  cabane channel retire stable prgenv-gnu/24.11 --cancel --key release.key

Until that day, users of the image get a note with the date and the replacement. Afterwards, the
channel no longer resolves the label. The image stays in the registry.")]
pub(crate) struct RetireArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The image: NAME/VERSION, or NAME
    image: LabelPattern,
    /// The first day without the image, in UTC; default: today
    #[arg(long, value_name = "DATE", conflicts_with = "cancel")]
    on: Option<Date>,
    /// What to use instead
    #[arg(long = "use", value_name = "LABEL", conflicts_with = "cancel")]
    replacement: Option<LabelPattern>,
    /// Keep releasing the image
    #[arg(long)]
    cancel: bool,
    /// Why, for users and for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Declare that an image must no longer be used
#[derive(Debug, Args)]
#[command(after_help = "\
The image leaves the channel, and can never be promoted again. Clients that have seen this state do
not pull it any more, under any label.")]
pub(crate) struct RevokeArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The image: label, ID, or digest
    image: String,
    /// Why, for users and for the history
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Exempt an image from a rule for promotions
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cabane channel waive stable app/1.2:v3 --rule age --reason \"urgent fix\" --until 2026-12-01 --key release.key

The waiver is signed, and in the history of the channel with its reason and your name.")]
pub(crate) struct WaiveArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The image: label, ID, or digest
    image: String,
    /// The rule: `signed_by`, `from`, `age`, `tested_within`, `built_from`, `suites`, `regressions`, or `runs_on:FILE`
    #[arg(long, value_name = "RULE")]
    rule: WaivedRule,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The last day of the waiver, in UTC
    #[arg(long, value_name = "DATE")]
    until: Date,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Sign the current state of a channel again before it expires
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The channel, such as stable or `deploy::stable@daint`
    channel: ChannelPattern,
    /// The private key; its public key is in `keys` of the channel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn rollback(setup: &Setup, args: &RollbackArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let manager = args.manager.manager(setup, &args.key, args.reason.as_ref())?;
    let (published, old) =
        cabane_release::rollback(setup, &connection, &args.channel, &manager, args.to)?;
    let (place, serial) = (published.document.place(), published.document.serial);
    setup.note(format_args!("{place}, number {serial}, has the images of number {old}"));
    Ok(())
}

pub(crate) fn retire(setup: &Setup, args: &RetireArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let manager = args.manager.manager(setup, &args.key, args.reason.as_ref())?;
    let request = Retire {
        image: args.image.clone(),
        date: args.on,
        replacement: args.replacement.clone(),
        is_cancelled: args.cancel,
    };
    let (published, entry) =
        cabane_release::retire(setup, &connection, &args.channel, &manager, &request)?;
    let (place, label) = (published.document.place(), &entry.label);
    match &entry.retirement {
        Some(retirement) => {
            setup.note(format_args!("{place} stops releasing {label} on {}", retirement.date));
        }
        None => setup.note(format_args!("{place} keeps releasing {label}")),
    }
    Ok(())
}

pub(crate) fn revoke(setup: &Setup, args: &RevokeArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let manager = args.manager.manager(setup, &args.key, Some(&args.reason))?;
    let (published, revoked) =
        cabane_release::revoke(setup, &connection, &args.channel, &manager, &args.image)?;
    let (place, label) = (published.document.place(), &revoked.label);
    setup.note(format_args!("{place} revokes {label} ({})", revoked.digest.id()));
    Ok(())
}

pub(crate) fn waive(setup: &Setup, args: &WaiveArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let manager = args.manager.manager(setup, &args.key, Some(&args.reason))?;
    let (image, rule) = (args.image.clone(), args.rule.clone());
    let request = Waive { image, rule, until: args.until };
    let (published, waivers) =
        cabane_release::waive(setup, &connection, &args.channel, &manager, &request)?;
    let place = published.document.place();
    for waiver in &waivers {
        let (rule, label, until) = (&waiver.rule, &waiver.label, waiver.until);
        setup.note(format_args!("{place} waives {rule} for {label} until {until}"));
    }
    Ok(())
}

pub(crate) fn renew(setup: &Setup, args: &RenewArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let manager = args.manager.manager(setup, &args.key, None)?;
    let published = cabane_release::renew(setup, &connection, &args.channel, &manager)?;
    let document = &published.document;
    let (place, serial) = (document.place(), document.serial);
    setup.note(format_args!("{place}, number {serial}, expires on {}", date(document.expires)));
    Ok(())
}
