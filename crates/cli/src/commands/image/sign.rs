// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image sign` and `key new`: signatures of images in a registry, and of their content for the
//! kernel.

use std::path::{Path, PathBuf};

use cabane_image_trust::{self as image_trust, SigningKey};
use cabane_label::ImageDescription;
use cabane_registry::RemoteImage;
use cabane_report::Result;
use cabane_signature_policy as signature_policy;
use cabane_transfer::{Connection, find_remote};
use clap::{Args, Subcommand};

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Sign an image in a registry, or its content for the kernel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image key new ~/.config/cabane/site.key
  cabane image sign prgenv-gnu/24.11:v2 --key ~/.config/cabane/site.key
  cabane image sign app/1.2:v1 --kernel-key site-kernel.key --certificate site-kernel.pem

With --key, the signature is stored in the registry, in the format of cosign. Other
signatures are kept. With --kernel-key, the root hash of a local image is signed, and
`cabane image push` takes the signature along. Nodes whose kernel has the certificate, and
whose policy says `verified-signatures yes`, then mount the image in the kernel,
regardless of the owner of the file.")]
pub(crate) struct SignArgs {
    /// The image: label, ID, digest, or path
    image: String,
    /// The private key: ECDSA on the curve P-256, PKCS#8 in PEM, not encrypted
    #[arg(long, value_name = "FILE", required_unless_present = "kernel_key")]
    key: Option<PathBuf>,
    /// Sign the root hash with this private key, in PEM, by means of `openssl`
    #[arg(long, value_name = "FILE", requires = "certificate", conflicts_with = "key")]
    kernel_key: Option<PathBuf>,
    /// Sign again, with the current time, even if this key has signed the label before
    #[arg(long, conflicts_with = "kernel_key")]
    renew: bool,
    /// The certificate of that key, in PEM
    #[arg(long, value_name = "FILE", requires = "kernel_key")]
    certificate: Option<PathBuf>,
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
key goes to FILE.pub. Existing files are never overwritten.")]
pub(crate) struct NewArgs {
    /// The file for the private key
    file: PathBuf,
}

pub(crate) fn sign(setup: &Setup, args: &SignArgs) -> Result<()> {
    if let (Some(key), Some(certificate)) = (&args.kernel_key, &args.certificate) {
        let signed = image_trust::sign(setup, &args.image, SigningKey { key, certificate })?;
        setup.note(format_args!(
            "the content of {} is signed: root hash {}",
            signed.name, signed.root_hash
        ));
        return Ok(());
    }
    let key = signature_policy::signing_key(setup, args.key.as_deref().unwrap_or(Path::new("")))?;
    let connection = args.registry.connect(setup)?;
    let description: ImageDescription = args.image.parse()?;
    for image in find_remote(setup, &connection, &args.image, &description)? {
        let is_new = connection.registry.sign(&image, &key, args.renew)?;
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
    let (key, public) = cabane_registry::SigningKey::generate(&args.file)?;
    setup.note(format_args!(
        "the private key is {}, the public one {} ({})",
        args.file.display(),
        public.display(),
        key.public().fingerprint().id()
    ));
    Ok(())
}
