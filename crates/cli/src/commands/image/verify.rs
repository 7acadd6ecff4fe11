// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image verify`: whether an image is signed, and is what was signed.

use std::path::{Path, PathBuf};

use cabane_environment::find_image;
use cabane_label::{Digest, ImageDescription};
use cabane_recipe::Requirement;
use cabane_registry::sum;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_signature_policy::{self as signature_policy, Candidate, Wanted};
use cabane_transfer::find_remote;
use clap::Args;
use serde::Serialize;

use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Verify the signature and the content of an image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image verify prgenv-gnu/24.11:v2
  cabane image verify prgenv-gnu/24.11:v2 --key site.pub
  cabane image verify --remote prgenv-gnu/24.11:v2

The command reads the whole image and the signatures that were saved when it was pulled; it
does not contact the registry. Without --key, the configuration names the required signers. If
no signature is required, only the content is checked against the digest.")]
pub(crate) struct VerifyArgs {
    /// The image: label, ID, digest, or path
    image: String,
    /// A public key; with several, one is enough
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Verify an image in the registry, without downloading it
    #[arg(long)]
    remote: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// An image that is what it should be, as programs see it.
#[derive(Serialize)]
struct Verified {
    image: String,
    digest: Digest,
    /// The keys with which it is signed; none where no signature is required.
    signers: Vec<PathBuf>,
}

pub(crate) fn verify(setup: &Setup, args: &VerifyArgs) -> Result<()> {
    let description: ImageDescription = args.image.parse()?;
    let verified = if args.remote {
        verify_remote(setup, args, &description)?
    } else {
        vec![verify_here(setup, args, &find_image(setup, &description)?)?]
    };
    if args.json {
        setup.printer.json(&verified);
        return Ok(());
    }
    for Verified { image, digest, signers } in &verified {
        let id = digest.id();
        if signers.is_empty() {
            setup.note(format_args!("{image} has the content of {id}; no signature is required"));
        }
        for signer in signers.iter().map(|signer| signer.display()) {
            setup.note(if args.remote {
                format!("{image} ({id}) is signed with {signer}")
            } else {
                format!("{image} is what was signed with {signer}")
            });
        }
    }
    Ok(())
}

fn nothing_wanted(what: &str) -> Report {
    let error = format!("no key is named, and the configuration wants no signature of `{what}`");
    Report::new(Kind::Usage, error).hinted("`--key FILE` names a public key".to_owned())
}

fn verify_here(setup: &Setup, args: &VerifyArgs, image: &LocatedImage) -> Result<Verified> {
    let candidate = Candidate::new(setup, image)?;
    let mut wanted = Vec::new();
    if args.key.is_empty() {
        for setting in &setup.settings.trust {
            let rules = candidate.rules(setting).into_iter();
            let wants = rules.filter(|rule| rule.requirement != Requirement::Nothing);
            for rule in wants {
                wanted.extend(Wanted::of_rule(setup, setting, &rule.requirement)?);
            }
        }
    } else {
        wanted.push(Wanted::new("`--key`".to_owned(), &args.key)?);
    }
    let name = candidate.name();
    if wanted.is_empty() && candidate.digest.is_none() {
        return Err(nothing_wanted(&name));
    }
    let signer = |one| candidate.signer(one).map_err(|doubt| candidate.refuse(one, doubt));
    let signers: Vec<&Path> = wanted.iter().map(signer).collect::<Result<_>>()?;
    let digest = check_content(setup, &candidate, image)?;
    Ok(Verified { image: name, digest, signers: signers.into_iter().map(Path::to_owned).collect() })
}

/// Reads the whole image. If it is right, and only the time of its file is another one than
/// was noted, that is noted now.
fn check_content(setup: &Setup, candidate: &Candidate<'_>, image: &LocatedImage) -> Result<Digest> {
    let watched = setup.transfer("summing");
    let found = sum::file(&image.path, &mut |done, total| watched.show(done, total));
    watched.end();
    let found: Digest = found?;
    if candidate.digest.as_ref() != Some(&found) {
        let what = candidate.name();
        let error = format!("the content of `{what}` has changed: its digest is {}", found.id());
        return Err(Report::new(Kind::Untrusted, error)
            .hinted("remove it with `cabane image rm`, and pull it again".to_owned()));
    }
    if !candidate.is_as_it_was() {
        let repositories = setup.repositories().unwrap_or_default();
        let mut all = repositories.iter();
        let named = all.find(|one| Some(&one.name) == image.repository.as_ref());
        if let (Some(named), Some(record)) = (named, &candidate.record) {
            signature_policy::remember(setup, &named.repository, &found, record.clone());
        }
    }
    Ok(found)
}

fn verify_remote(
    setup: &Setup,
    args: &VerifyArgs,
    description: &ImageDescription,
) -> Result<Vec<Verified>> {
    let mut verified = Vec::new();
    let connection = args.registry.connect(setup)?;
    for image in find_remote(setup, &connection, &args.image, description)? {
        let wanted = if args.key.is_empty() {
            signature_policy::wanted(setup, &image.place)?
        } else {
            vec![Wanted::new("`--key`".to_owned(), &args.key)?]
        };
        if wanted.is_empty() {
            return Err(nothing_wanted(&image.place.to_string()));
        }
        let signatures = connection.registry.signatures(&image)?;
        let mut signers = Vec::new();
        for one in &wanted {
            signers.push(one.signer_of_remote(&image, &signatures)?.to_owned());
            signature_policy::check_label(setup, &connection.registry, &image, one, &signatures)?;
        }
        let (name, digest) = (image.place.to_string(), image.digest.clone());
        verified.push(Verified { image: name, digest, signers });
    }
    Ok(verified)
}
