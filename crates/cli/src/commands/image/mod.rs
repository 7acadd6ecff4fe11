// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image`: images in repositories and registries.

use cabane_report::Result;
use clap::Subcommand;

use crate::setup::Setup;

pub(crate) mod add;
pub(crate) mod copy;
pub(crate) mod find;
pub(crate) mod inspect;
pub(crate) mod ls;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod rm;
pub(crate) mod sign;
pub(crate) mod trust;
pub(crate) mod unpack;
pub(crate) mod verify;

/// What can be done with images.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ImageCommand {
    /// List images
    #[command(alias = "list")]
    Ls(ls::LsArgs),
    /// Show the details of one image
    Inspect(inspect::InspectArgs),
    /// Add an image file under a label, or give an image another label
    Add(add::AddArgs),
    /// Remove labels, and images without labels
    Rm(rm::RmArgs),
    /// List the images in a registry
    Find(find::FindArgs),
    /// Download an image from a registry into the repository
    Pull(pull::PullArgs),
    /// Upload an image to a registry
    Push(push::PushArgs),
    /// Give an image in a registry another label
    Copy(copy::CopyArgs),
    /// Remove a label from an image in a registry, and the image with its last label
    Delete(copy::DeleteArgs),
    /// Sign an image in a registry, or its content for the kernel
    Sign(sign::SignArgs),
    /// Let the kernel mount an image, regardless of its owner
    Trust(trust::TrustArgs),
    /// Unpack images on this node, so that their equal files share memory
    Unpack(unpack::UnpackArgs),
    /// Verify the signature and the content of an image
    Verify(verify::VerifyArgs),
    /// Create keys for signing images
    #[command(subcommand)]
    Key(sign::KeyCommand),
}

/// Runs one of them.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn image(setup: &Setup, command: &ImageCommand) -> Result<()> {
    match command {
        ImageCommand::Ls(args) => ls::ls(setup, args),
        ImageCommand::Inspect(args) => inspect::inspect(setup, args),
        ImageCommand::Add(args) => add::add(setup, args),
        ImageCommand::Rm(args) => rm::rm(setup, args),
        ImageCommand::Find(args) => find::find(setup, args),
        ImageCommand::Pull(args) => pull::pull(setup, args),
        ImageCommand::Push(args) => push::push(setup, args),
        ImageCommand::Copy(args) => copy::copy(setup, args),
        ImageCommand::Delete(args) => copy::delete(setup, args),
        ImageCommand::Sign(args) => sign::sign(setup, args),
        ImageCommand::Trust(args) => trust::trust(setup, args),
        ImageCommand::Unpack(args) => unpack::unpack(setup, args),
        ImageCommand::Verify(args) => verify::verify(setup, args),
        ImageCommand::Key(command) => sign::key(setup, command),
    }
}
