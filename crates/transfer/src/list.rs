// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of a registry: what it lacks, and its repair.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cabane_label::{NameMatch, Namespace};
use cabane_registry::{Comparison, Difference, Listed, Place, RemoteImage, Wanted, service_list};
use cabane_report::{IoContext, Result};
use cabane_site::Context;

use crate::registry::Connection;

/// Compares the list of a part of the registry with what it has.
///
/// # Errors
///
/// Those of asking.
pub fn check_list(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
) -> Result<Comparison> {
    let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
    compare(context, connection, &wanted)
}

/// Lets the list say what the registry has, and returns where it does not even then.
///
/// # Errors
///
/// Those of reading and writing.
pub fn repair_list(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    differences: &[Difference],
) -> Result<Vec<Difference>> {
    let watched = context.counted("repairing the list");
    let left = connection.registry.repair_list(namespace, differences, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    Ok(left?)
}

/// Returns the list of a part of the registry in the form that uenv's listing service answers.
///
/// # Errors
///
/// Those of asking.
pub fn static_list(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
) -> Result<Vec<u8>> {
    let comparison = check_list(context, connection, namespace)?;
    Ok(service_list(&comparison.images))
}

/// Writes a list into a file for a web server, which is replaced as a whole.
///
/// # Errors
///
/// Those of writing.
pub fn write_static_list(path: &Path, list: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // As for any new file, the user's mask decides who may read it.
    let permissions = fs::Permissions::from_mode(0o666);
    let mut builder = tempfile::Builder::new();
    let file = builder.permissions(permissions).tempfile_in(directory.unwrap_or(Path::new(".")));
    let written = file.and_then(|mut file| {
        file.write_all(list)?;
        file.persist(path)?;
        Ok(())
    });
    written.or_failed(|| format!("write {}", path.display()))
}

/// Asks for each image that is wanted, whatever the list says.
pub(crate) fn compare(
    context: &Context,
    connection: &Connection,
    wanted: &Wanted<'_>,
) -> Result<Comparison> {
    let listing = context.settings.registry.listing.value;
    let watched = context.counted("reading images");
    let comparison = connection.registry.compare_list(wanted, listing, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    Ok(comparison?)
}

/// Returns the image that has a label of the list. The label counts: where the list has another
/// image it is corrected, if that is permitted.
pub(crate) fn listed_image(
    context: &Context,
    connection: &Connection,
    listed: &Listed,
) -> Result<Option<RemoteImage>> {
    let place = listed.place();
    let found = connection.registry.image_if_there(&place)?;
    if found.as_ref().is_some_and(|image| image.digest == listed.digest) {
        return Ok(found);
    }
    let is_corrected = connection.registry.repair_line(&place)?;
    let corrected = if is_corrected { "; the list is corrected" } else { "" };
    let (old, now) = (listed.digest.id(), found.as_ref().map(|image| image.digest.id()));
    context.note(match now {
        Some(now) => {
            format!("{place} is {now} now, and the list of the registry had {old}{corrected}")
        }
        None => format!("{place} is gone, and the list of the registry had it{corrected}"),
    });
    Ok(found)
}

/// Returns the image that has a label. If none has, its line in the list is removed.
///
/// # Errors
///
/// None has it; and those of asking.
pub(crate) fn labeled_image(
    context: &Context,
    connection: &Connection,
    place: &Place,
) -> Result<RemoteImage> {
    if let Some(image) = connection.registry.image_if_there(place)? {
        return Ok(image);
    }
    if connection.registry.repair_line(place)? {
        context.note(format_args!(
            "{place} was still in the list of the registry, and is removed from it"
        ));
    }
    Ok(connection.registry.image(place)?)
}

/// Says that the list differs, and who can do something about it.
pub(crate) fn say_differences(context: &Context, comparison: &Comparison) {
    let count = comparison.differences.len();
    if count > 0 && comparison.has_list {
        let labels = if count == 1 { "label" } else { "labels" };
        context.note(format_args!("the list of the registry is wrong about {count} {labels}"));
        context.hint("`cabane registry reindex` repairs it, with the right to push");
    }
}
