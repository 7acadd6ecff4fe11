// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image rm`: labels, and images without any.

use cabane_label::{Digest, ImageDescription};
use cabane_repository::Removed;
use cabane_resolve::NamedRepository;
use clap::Args;

use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::images::find_image;
use crate::report::{CommandError, CommandResult};
use crate::setup::Setup;

/// Remove labels, and images that have none left
#[derive(Debug, Args)]
#[command(after_help = "\
A label removes itself; the image goes with its last label. An id or a digest removes
the image with all its labels. Commands that run in the image are not disturbed.")]
pub(crate) struct RmArgs {
    /// Labels, ids or digests
    #[arg(required = true, value_name = "IMAGES")]
    images: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("a path names no image of a repository")]
struct IsPath;

pub(super) fn rm(setup: &Setup, args: &RmArgs) -> CommandResult<ExitCode> {
    for text in &args.images {
        let description: ImageDescription = text.parse().map_err(convert::parse_error)?;
        let removed = match &description {
            ImageDescription::Path(_) => {
                return Err(CommandError::new(exit_codes::BAD_INPUT, IsPath)
                    .hinted("`cabane image ls` lists the labels".to_owned()));
            }
            // An image that lost its labels can be named by nothing else.
            ImageDescription::Digest(digest) => remove_image(setup, digest)?,
            _ => remove_found(setup, &description)?,
        };
        tell(setup, &removed);
    }
    Ok(exit_codes::SUCCESS)
}

fn remove_image(setup: &Setup, digest: &Digest) -> CommandResult<Removed> {
    let repositories = setup.repositories()?;
    let is_there = |one: &&NamedRepository| one.repository.image_path(digest).exists();
    let holder = repositories.iter().find(is_there).or(repositories.first());
    let Some(holder) = holder else {
        return Ok(Removed::default());
    };
    holder
        .repository
        .remove_image(digest)
        .map_err(convert::repository_error)
}

fn remove_found(setup: &Setup, description: &ImageDescription) -> CommandResult<Removed> {
    let located = find_image(setup, description)?;
    let repositories = setup.repositories()?;
    let holder = repositories
        .iter()
        .find(|one| Some(&one.name) == located.repository.as_ref());
    let (Some(holder), Some(digest)) = (holder, &located.digest) else {
        return Ok(Removed::default());
    };
    match (description, &located.label) {
        (ImageDescription::Pattern(_), Some(label)) => holder.repository.remove(label),
        _ => holder.repository.remove_image(digest),
    }
    .map_err(convert::repository_error)
}

fn tell(setup: &Setup, removed: &Removed) {
    for record in &removed.records {
        setup
            .printer
            .note(format_args!("removed the label {}", record.label));
    }
    for image in &removed.images {
        setup
            .printer
            .note(format_args!("removed the image {}", image.id()));
    }
}
