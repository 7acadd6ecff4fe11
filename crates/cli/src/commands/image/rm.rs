// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image rm`: labels, and images without any.

use std::path::Path;

use cabane_environment::find_image_record;
use cabane_label::{Digest, ImageDescription, LabelPattern, NameMatch};
use cabane_report::{Kind, Report, Result};
use cabane_repository::{Error, Removed, Repository};
use cabane_resolve::NamedRepository;
use clap::Args;

use crate::setup::Setup;

/// Remove labels, and images without labels
#[derive(Debug, Args)]
#[command(after_help = "\
With a label, only that label is removed, and the image with its last label. With an ID or
a digest, the image is removed with all its labels. Running commands keep working.

An image on which other images are built is removed only with --force. The other images cannot be
mounted any more.")]
pub(crate) struct RmArgs {
    /// Labels, IDs, or digests
    #[arg(required = true, value_name = "IMAGES")]
    images: Vec<String>,
    /// Remove images on which other images are built
    #[arg(long)]
    force: bool,
}

pub(crate) fn rm(setup: &Setup, args: &RmArgs) -> Result<()> {
    for text in &args.images {
        print(setup, &remove(setup, &text.parse()?, args.force)?);
    }
    Ok(())
}

/// Removes a label, or an image with all its labels. With `force`, also one on which others are built.
///
/// # Errors
///
/// There is no such image, several labels are meant, or another image is built on it.
pub(crate) fn remove(
    setup: &Setup,
    description: &ImageDescription,
    force: bool,
) -> Result<Removed> {
    match description {
        ImageDescription::Path(_) => {
            Err(Report::new(Kind::BadInput, "a path names no image of a repository")
                .hinted("`cabane image ls` lists the labels".to_owned()))
        }
        // An image that lost its labels can be named by nothing else.
        ImageDescription::Digest(digest) => remove_image(setup, digest, force),
        _ => remove_found(setup, description, force),
    }
}

fn remove_image(setup: &Setup, digest: &Digest, force: bool) -> Result<Removed> {
    let repositories = setup.repositories()?;
    // Its file may be missing, which is why it is to go.
    let is_there = |one: &&NamedRepository| {
        let image = one.repository.image_path(digest);
        image.parent().is_some_and(Path::exists)
    };
    let Some(named) = repositories.iter().find(is_there) else {
        // Finds it nowhere either, and reports where it searched.
        return remove_found(setup, &ImageDescription::Digest(digest.clone()), force);
    };
    check_base(setup, named, digest, force)?;
    remove_with_labels(&named.repository, digest, force).map_err(Report::from)
}

fn remove_found(setup: &Setup, description: &ImageDescription, force: bool) -> Result<Removed> {
    let located = find_image_record(setup, description)?;
    let repositories = setup.repositories()?;
    let named = repositories.iter().find(|one| Some(&one.name) == located.repository.as_ref());
    let (Some(named), Some(digest)) = (named, &located.digest) else {
        let error = "the image was removed by another process at the same time";
        return Err(Report::new(Kind::NotFound, error));
    };
    let repository = &named.repository;
    let removed =
        if let (ImageDescription::Pattern(pattern), Some(label)) = (description, &located.label) {
            refuse_several(setup, named, digest, pattern)?;
            if repository.by_digest(digest)?.len() < 2 {
                check_base(setup, named, digest, force)?;
            }
            if force { repository.remove_forced(label) } else { repository.remove(label) }
        } else {
            check_base(setup, named, digest, force)?;
            remove_with_labels(repository, digest, force)
        };
    removed.map_err(Report::from)
}

/// Refuses to remove an image without which others cannot be mounted, or says which these are if it
/// is removed nevertheless.
fn check_base(setup: &Setup, named: &NamedRepository, digest: &Digest, force: bool) -> Result<()> {
    let repositories = setup.repositories()?;
    let is_other = |one: &&NamedRepository| one.name != named.name;
    let is_elsewhere =
        repositories.iter().filter(is_other).any(|one| one.repository.has_image(digest));
    let mut labels = Vec::new();
    for one in &repositories {
        // Images of other repositories use the base that is elsewhere.
        if one.name == named.name || !is_elsewhere {
            labels.extend(one.repository.built_on(digest)?);
        }
    }
    match labels.as_slice() {
        [] => Ok(()),
        labels if force => {
            let list: Vec<String> = labels.iter().map(ToString::to_string).collect();
            let (id, list) = (digest.id(), list.join("\n  "));
            setup.warning(format_args!(
                "without the image {id}, these cannot be mounted:\n  {list}"
            ));
            Ok(())
        }
        _ => Err(Error::IsBase { digest: digest.clone(), labels }.into()),
    }
}

fn remove_with_labels(
    repository: &Repository,
    digest: &Digest,
    force: bool,
) -> Result<Removed, Error> {
    if force { repository.remove_image_forced(digest) } else { repository.remove_image(digest) }
}

/// For running, several labels of one image mean the same; for removing they do not.
fn refuse_several(
    setup: &Setup,
    named: &NamedRepository,
    digest: &Digest,
    pattern: &LabelPattern,
) -> Result<()> {
    let system = setup.system().filter(|_| pattern.system.is_none());
    let records = named.repository.by_digest(digest)?;
    let labels: Vec<String> = records
        .into_iter()
        .map(|record| record.label)
        .filter(|label| pattern.matches(label, NameMatch::Exact))
        .filter(|label| system.as_ref().is_none_or(|system| label.system == *system))
        .map(|label| label.to_string())
        .collect();
    let [first, _, ..] = labels.as_slice() else {
        return Ok(());
    };
    let (pattern, count) = (pattern.to_string(), labels.len());
    let hint = format!("write the label in full: `cabane image rm {first}`");
    let error =
        Report::new(Kind::Ambiguous, format!("`{pattern}` matches {count} labels of one image"));
    Err(error.detailed(format!("  {}", labels.join("\n  "))).hinted(hint))
}

fn print(setup: &Setup, removed: &Removed) {
    for record in &removed.records {
        setup.note(format_args!("removed the label {}", record.label));
    }
    for image in &removed.images {
        setup.note(format_args!("removed the image {}", image.id()));
    }
}
