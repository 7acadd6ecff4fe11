// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A repository gets the images of a registry: those of channels, or of labels. What they share can be kept once.

use std::collections::BTreeSet;
use std::time::Duration;

use cabane_evidence as evidence;
use cabane_label::{ChannelPattern, LabelPattern};
use cabane_registry::{Place, RemoteImage};
use cabane_report::Result;
use cabane_repository::{Added, Repository};
use cabane_site::Context;

use crate::bases;
use crate::mirror::Selection;
use crate::pull::{ToAdd, add_image};
use crate::registry::Connection;

/// What a repository gets from which registry.
pub struct RepositoryMirrorRequest<'a> {
    /// From here.
    pub source: &'a Connection,
    /// To there.
    pub repository: &'a Repository,
    /// The images of these channels.
    pub channels: Vec<ChannelPattern>,
    /// The images under these labels.
    pub patterns: Vec<LabelPattern>,
    /// Whether labels are taken from other images of the repository.
    pub force: bool,
    /// Whether nothing is copied.
    pub dry_run: bool,
    /// Whether what images share is kept once.
    pub deduplicate: bool,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepositoryMirrorSummary {
    /// The images that were selected.
    pub images: usize,
    /// Those that the repository did not have under their label.
    pub new: usize,
}

/// Copies images with the images on which they are built, and calls `done` for each that is new, with what was added
/// unless this is a dry run. With `deduplicate`, each image is replaced by a list of its parts before the next one comes,
/// so that the disk never holds more than one whole image of a name besides the first.
///
/// # Errors
///
/// As [`crate::mirror()`] and [`crate::pull()`]. What was copied before stays.
pub fn mirror_to_repository(
    context: &Context,
    request: &RepositoryMirrorRequest<'_>,
    done: &mut dyn FnMut(&RemoteImage, Option<&Added>),
) -> Result<RepositoryMirrorSummary> {
    let RepositoryMirrorRequest { source, repository, force, dry_run, deduplicate, .. } = *request;
    let mut seen: BTreeSet<Place> = BTreeSet::new();
    let mut summary = RepositoryMirrorSummary::default();
    let selection = Selection { source, channels: &request.channels, patterns: &request.patterns };
    selection.each(context, &mut |image, _| {
        if !seen.insert(image.place.clone()) {
            return Ok(());
        }
        summary.images += 1;
        if is_there(repository, image)? {
            if !dry_run && let Err(error) = evidence::bring(&source.registry, image, repository) {
                context.detail(format_args!(
                    "the evidence of {} was not pulled: {error}",
                    image.place
                ));
            }
            return Ok(());
        }
        summary.new += 1;
        if dry_run {
            done(image, None);
            return Ok(());
        }
        let added = add_image(context, source, repository, &ToAdd::new(image, force))?;
        done(image, Some(&added));
        bases::pull(context, source, repository, (image, None), &mut |base| {
            done(image, Some(base));
        })?;
        if deduplicate {
            repository.deduplicate(Duration::ZERO, &mut |_| ())?;
        }
        Ok(())
    })?;
    Ok(summary)
}

/// Whether the repository has an image under its label, be it deduplicated.
fn is_there(repository: &Repository, image: &RemoteImage) -> Result<bool> {
    let known = repository.by_label(&image.place.label)?;
    Ok(known.is_some_and(|known| known.digest == image.digest)
        && repository.has_image(&image.digest))
}
