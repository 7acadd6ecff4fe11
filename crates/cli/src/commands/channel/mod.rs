// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane channel`: which images of a registry are released.

use cabane_report::Result;
use clap::Subcommand;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

mod edit;
mod log;
mod promote;
mod show;
mod text;

/// What can be done with channels.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ChannelCommand {
    /// List the channels of the configuration
    Ls(show::LsArgs),
    /// Show the images that a channel releases
    Show(show::ShowArgs),
    /// Show the history of a channel
    Log(log::LogArgs),
    /// Compare two channels, or two states of a channel
    Diff(log::DiffArgs),
    /// Release images through a channel
    Promote(Box<promote::PromoteArgs>),
    /// Restore an earlier state of a channel
    Rollback(edit::RollbackArgs),
    /// Announce that a channel stops releasing an image
    Retire(Box<edit::RetireArgs>),
    /// Declare that an image must no longer be used
    Revoke(edit::RevokeArgs),
    /// Exempt an image from a rule for promotions
    Waive(edit::WaiveArgs),
    /// Sign the current state of a channel again before it expires
    Renew(edit::RenewArgs),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn channel(setup: &Setup, command: &ChannelCommand) -> Result<ExitCode> {
    match command {
        ChannelCommand::Ls(args) => show::ls(setup, args)?,
        ChannelCommand::Show(args) => show::show(setup, args)?,
        ChannelCommand::Log(args) => log::log(setup, args)?,
        ChannelCommand::Diff(args) => log::diff(setup, args)?,
        ChannelCommand::Promote(args) => return promote::promote(setup, args),
        ChannelCommand::Rollback(args) => edit::rollback(setup, args)?,
        ChannelCommand::Retire(args) => edit::retire(setup, args)?,
        ChannelCommand::Revoke(args) => edit::revoke(setup, args)?,
        ChannelCommand::Waive(args) => edit::waive(setup, args)?,
        ChannelCommand::Renew(args) => edit::renew(setup, args)?,
    }
    Ok(exit_codes::SUCCESS)
}
