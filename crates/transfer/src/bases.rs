// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images on which an image is built: they are pulled with it, by their digests.

use cabane_label::{Digest, LabelPattern, NameMatch, Namespace, escape};
use cabane_registry::{RemoteImage, Wanted};
use cabane_report::Result;
use cabane_repository::{Added, Repository};
use cabane_site::Context;

use crate::list::{compare, listed_image};
use crate::pull::add_image;
use crate::registry::Connection;

/// Downloads the images on which an image is built that are in no repository yet, and calls `done` for
/// each. What the registry does not have is a warning: the image itself is here.
///
/// # Errors
///
/// Those of asking, of downloading, and of adding.
pub(crate) fn pull(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    (image, group): (&RemoteImage, Option<&String>),
    done: &mut dyn FnMut(&Added),
) -> Result<()> {
    let meta = repository.meta_if_present(&image.digest)?;
    let records = meta.map(|meta| meta.bases).unwrap_or_default();
    if records.is_empty() {
        return Ok(());
    }
    let repositories = context.repositories()?;
    for base in records {
        let is_here = |one: &Repository| one.has_image(&base.digest);
        if is_here(repository) || repositories.iter().any(|one| is_here(&one.repository)) {
            continue;
        }
        let found = find(context, connection, &image.place.namespace, &base.digest)?;
        if let Some(found) = found {
            done(&add_image(context, connection, repository, &found, group, false)?);
            continue;
        }
        let (top, label) = (&image.place.label, escape(&base.label));
        context.warning(format_args!(
            "{top} is built on `{label}`, and the registry does not have this image: {}",
            base.digest
        ));
        context.hint(format_args!(
            "without it, {top} cannot be started: push it to the registry, or add its file with \
             `cabane image add`"
        ));
    }
    Ok(())
}

/// Finds an image by its digest, under whatever label it is.
fn find(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    digest: &Digest,
) -> Result<Option<RemoteImage>> {
    let pattern = LabelPattern::default();
    let wanted = Wanted { namespace, pattern: Some(&pattern), how: NameMatch::Exact };
    let listed = connection.registry.find(&wanted, context.settings.registry.listing.value)?;
    let mut listed = listed.into_iter().find(|one| one.digest == *digest);
    if listed.is_none() {
        // It may have been pushed a moment ago.
        connection.registry.forget_list(namespace);
        let now = compare(context, connection, &wanted)?.images;
        listed = now.into_iter().find(|one| one.digest == *digest);
    }
    let Some(listed) = listed else { return Ok(None) };
    let images = listed_image(context, connection, &listed)?;
    Ok(images.into_iter().find(|image| image.digest == *digest))
}
