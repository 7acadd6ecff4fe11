// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Chunk lists for images that other tools pushed.

use std::path::PathBuf;

use cabane_label::{NameMatch, Namespace};
use cabane_registry::{RemoteImage, Wanted};
use cabane_report::Result;
use cabane_site::Context;

use crate::registry::Connection;
use crate::scratch::PartialDirectory;

/// Attaches chunk lists to the images of a namespace that have none, and calls `done` for each. An image
/// that no repository has is downloaded for that, and removed again.
///
/// # Errors
///
/// Those of reading from and writing to the registry. Lists that were attached before stay, and a
/// download that was interrupted continues the next time.
pub fn add_chunk_lists(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    done: &mut dyn FnMut(&RemoteImage),
) -> Result<()> {
    let registry = &connection.registry;
    let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
    for listed in registry.find(&wanted, context.settings.registry.listing.value)? {
        let Some(image) = registry.image_if_there(&listed.place())? else {
            continue;
        };
        if !registry.lacks_chunk_list(&image)? {
            continue;
        }
        match local_file(context, &image)? {
            Some(path) => registry.add_chunk_list(&image, &path)?,
            None => download(context, connection, &image)?,
        }
        done(&image);
    }
    Ok(())
}

fn local_file(context: &Context, image: &RemoteImage) -> Result<Option<PathBuf>> {
    let repositories = context.repositories()?.into_iter().map(|named| named.repository);
    let mut holding = repositories.filter(|one| one.has_whole_image(&image.digest, image.size));
    Ok(holding.next().map(|repository| repository.plain_image(&image.digest)).transpose()?)
}

fn download(context: &Context, connection: &Connection, image: &RemoteImage) -> Result<()> {
    let directory = PartialDirectory::of(context, "chunk-lists", image)?;
    let watched = context.transfer(&format!("reading {}", image.place.label));
    let fetched = connection.registry.fetch_image(image, directory.path(), &[], &mut |at, all| {
        watched.show(at, all);
    });
    watched.end();
    connection.registry.add_chunk_list(image, &fetched?.path)?;
    directory.remove();
    Ok(())
}
