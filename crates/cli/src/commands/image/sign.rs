// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image sign` and `key new`: signatures of images in a registry.

use std::path::PathBuf;

use cabane_label::ImageDescription;
use cabane_registry::{RemoteImage, SigningKey};
use cabane_report::Result;
use cabane_signature_policy as signature_policy;
use cabane_transfer::{Connection, find_remote};
use clap::{Args, Subcommand};

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Sign an image in a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image key new ~/.config/cabane/site.key
  cabane image sign prgenv-gnu/24.11:v2 --key ~/.config/cabane/site.key

The signature is stored in the registry, in the format of cosign. Other signatures are kept.")]
pub(crate) struct SignArgs {
    /// The image: label, ID, or digest
    image: String,
    /// The private key: ECDSA on the curve P-256, PKCS#8 in PEM, not encrypted
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Create keys for signing images
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum KeyCommand {
    /// Create a private key, and the public key beside it
    New(NewArgs),
}

/// Create a private key, and the public key beside it
#[derive(Debug, Args)]
#[command(after_help = "\
The private key is not encrypted: only its owner can read the file. The public
key goes to FILE.pub. Files that are there are never overwritten.")]
pub(crate) struct NewArgs {
    /// The file for the private key
    file: PathBuf,
}

pub(crate) fn sign(setup: &Setup, args: &SignArgs) -> Result<()> {
    let key = signature_policy::signing_key(setup, &args.key)?;
    let connection = args.registry.connect(setup)?;
    let description: ImageDescription = args.image.parse()?;
    for image in find_remote(setup, &connection, &args.image, &description)? {
        let is_new = connection.registry.sign(&image, &key)?;
        let already = if is_new { "" } else { " already" };
        setup.note(format_args!(
            "{} ({}) is signed with the key {}{already}",
            image.place,
            image.digest.id(),
            key.public().fingerprint().id()
        ));
        remember(setup, &connection, &image);
    }
    Ok(())
}

/// Keeps the signatures beside the image, where it is in the repository too.
fn remember(setup: &Setup, connection: &Connection, image: &RemoteImage) {
    for named in setup.repositories().unwrap_or_default() {
        if named.repository.has_image(&image.digest)
            && let Ok(record) = connection.registry.fetch_record(image)
        {
            signature_policy::remember(setup, &named.repository, &image.digest, record);
        }
    }
}

pub(crate) fn key(setup: &Setup, command: &KeyCommand) -> Result<()> {
    let KeyCommand::New(args) = command;
    let (key, public) = SigningKey::generate(&args.file)?;
    setup.note(format_args!(
        "the private key is {}, the public one {} ({})",
        args.file.display(),
        public.display(),
        key.public().fingerprint().id()
    ));
    Ok(())
}
