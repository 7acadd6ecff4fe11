// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry mirror`: the images of a registry in another one, or in a repository.

use std::path::{Path, PathBuf};

use cabane_label::{ChannelPattern, LabelPattern, escape};
use cabane_report::{Kind, Report, Result, size};
use cabane_site::open_repository;
use cabane_transfer::{
    MirrorRequest, RegistryRequest, RepositoryMirrorRequest, mirror as copy_images,
    mirror_to_repository,
};
use clap::Args;

use crate::added::print_changes;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

/// Copy images to another registry, or to a repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry mirror https://registry.example.org/uenv https://mirror.example.com/uenv --channel stable
  cabane registry mirror https://a.example.org https://b.example.org 'deploy::@*' --dry-run
  cabane registry mirror https://a.example.org /shared/cabane/mirror '@alps' --deduplicate

Images are copied with their metadata, chunk lists, and signatures, under the
same labels, and with the images on which they are built. The command copies
only what the target does not have, and continues after an interruption. It
removes nothing. A label that another image of the target has moves only with
--force, and a channel never goes back.

If the target is the path of a repository, images are added to it, as with
`cabane image pull`. With --deduplicate, it stores shared parts only once; see
`cabane repo deduplicate --help`.")]
pub(crate) struct MirrorArgs {
    /// The address of the registry with the images
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The address of the registry that gets them, or the path of a repository
    #[arg(value_name = "TARGET")]
    target: String,
    /// Labels; a part that is left out matches everything
    #[arg(value_name = "LABEL", required_unless_present = "channels")]
    patterns: Vec<LabelPattern>,
    /// The images of this channel, and the channel itself
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<ChannelPattern>,
    /// Move labels from other images of the target
    #[arg(long)]
    force: bool,
    /// In a repository, store parts that images share only once
    #[arg(long)]
    deduplicate: bool,
    /// List what would be copied, and stop
    #[arg(long)]
    dry_run: bool,
    /// A file with a token for the target, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
}

pub(crate) fn mirror(setup: &Setup, args: &MirrorArgs) -> Result<ExitCode> {
    if args.target.starts_with(['/', '.']) {
        return mirror_here(setup, args);
    }
    if args.deduplicate {
        let message = format!(
            "`--deduplicate` is for repositories, and {} is a registry",
            escape(&args.target)
        );
        let hint = "name the path of a repository that begins with `/` or `.`";
        return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
    }
    let source = RegistryRequest { registry: Some(args.source.clone()), ..Default::default() };
    let target = RegistryRequest {
        registry: Some(args.target.clone()),
        token: args.token.clone(),
        username: args.username.clone(),
    };
    let (source, target) = (source.connect(setup)?, target.connect(setup)?);
    let request = MirrorRequest {
        source: &source,
        target: &target,
        channels: args.channels.clone(),
        patterns: args.patterns.clone(),
        force: args.force,
        dry_run: args.dry_run,
    };
    let summary = copy_images(setup, &request, &mut |image, mirrored| match mirrored {
        Some(mirrored) if mirrored.is_new => {
            setup.note(format_args!("copied {} ({})", image.place, image.digest.id()));
        }
        Some(mirrored) => {
            let count = mirrored.attached;
            setup.note(format_args!("{}: added {count} attached documents", image.place));
        }
        None => setup.printer.data(format_args!("{}  {}\n", image.place, size(image.size))),
    })?;
    let (all, new) = (summary.images, summary.new);
    if args.dry_run {
        setup.note(format_args!("{new} of {all} images would be copied"));
    } else {
        let (sent, documents) = (size(summary.sent), summary.documents);
        setup.note(format_args!(
            "copied {new} of {all} images and {documents} channel documents, {sent}"
        ));
    }
    Ok(exit_codes::SUCCESS)
}

/// The images of a registry in a repository.
fn mirror_here(setup: &Setup, args: &MirrorArgs) -> Result<ExitCode> {
    let source = RegistryRequest { registry: Some(args.source.clone()), ..Default::default() };
    let repository = open_repository(Path::new(&args.target))?;
    let request = RepositoryMirrorRequest {
        source: &source.connect(setup)?,
        repository: &repository,
        channels: args.channels.clone(),
        patterns: args.patterns.clone(),
        force: args.force,
        dry_run: args.dry_run,
        deduplicate: args.deduplicate,
    };
    let summary = mirror_to_repository(setup, &request, &mut |image, added| match added {
        Some(added) => print_changes(setup, added),
        None => setup.printer.data(format_args!("{}  {}\n", image.place, size(image.size))),
    })?;
    let (all, new) = (summary.images, summary.new);
    if args.dry_run {
        setup.note(format_args!("{new} of {all} images would be copied"));
    } else {
        let status = repository.status(false)?;
        let (bytes, stored) = (size(status.bytes), size(status.stored));
        setup.note(format_args!(
            "copied {new} of {all} images; the repository keeps {bytes} in {stored}"
        ));
    }
    Ok(exit_codes::SUCCESS)
}
