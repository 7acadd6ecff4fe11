// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images on which an image is built: they are pulled with it, by their digests.
//!
//! Their labels may have moved since, here and in the registry. Then they get labels with their IDs as
//! tags.

use cabane_label::{Label, LabelPattern, NameMatch, SystemPattern, escape};
use cabane_registry::{ErrorKind, Listed, MetaFiles, Place, RemoteImage, Wanted};
use cabane_report::Result;
use cabane_repository::{Added, Repository};
use cabane_site::Context;
use cabane_view::{ImageBase, Meta};

use crate::list::{compare, listed_image};
use crate::pull::{ToAdd, add_image};
use crate::registry::Connection;

/// The file of the metadata that names the bases.
pub(crate) const ENV_JSON: &str = "env.json";

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
    let records = match repository.meta_if_present(&image.digest)? {
        Some(meta) => meta.bases,
        None => of_remote(connection, image)?,
    };
    if records.is_empty() {
        return Ok(());
    }
    let repositories = context.repositories()?;
    for base in records {
        let is_here = |one: &Repository| one.has_image(&base.digest);
        if is_here(repository) || repositories.iter().any(|one| is_here(&one.repository)) {
            continue;
        }
        match find(context, connection, &image.place, &base)? {
            Some(found) => done(&add(context, connection, repository, (&found, group))?),
            None => warn_of_missing(context, image, &base),
        }
    }
    Ok(())
}

/// Says that a registry does not have an image on which another one is built.
pub(crate) fn warn_of_missing(context: &Context, image: &RemoteImage, base: &ImageBase) {
    let (top, label) = (&image.place.label, escape(&base.label));
    context.warning(format_args!(
        "{top} is built on `{label}`, and the registry does not have this image: {}",
        base.digest
    ));
    context.hint(format_args!(
        "without it, {top} cannot be started: push it to the registry, or add its file with `cabane \
         image add`"
    ));
}

/// Says that an image which was copied to a place lacks one of its bases, unless it is there.
///
/// # Errors
///
/// Those of asking.
pub(crate) fn warn_unless_there(
    context: &Context,
    target: &Connection,
    (image, place): (&RemoteImage, &Place),
    base: &ImageBase,
) -> Result<()> {
    if find(context, target, place, base)?.is_none() {
        warn_of_missing(context, image, base);
    }
    Ok(())
}

/// Returns the images on which an image of a registry is built, as the metadata say that are attached to
/// it. Metadata that are damaged name none.
///
/// # Errors
///
/// Those of asking.
pub fn of_remote(connection: &Connection, image: &RemoteImage) -> Result<Vec<ImageBase>> {
    Ok(named_in(connection.registry.fetch_meta_files(image, &[ENV_JSON])?))
}

fn named_in(files: MetaFiles) -> Vec<ImageBase> {
    let text = files.and_then(|mut files| files.remove(ENV_JSON));
    let meta = text.and_then(|text| Meta::from_json(&text).ok());
    meta.map(|meta| meta.bases).unwrap_or_default()
}

/// Returns the images on which each of several images of a registry is built; nothing for one whose
/// metadata cannot be read, with which a user with the right to push could stop the others. An image that
/// was deleted meanwhile has none.
///
/// # Errors
///
/// The registry cannot be reached, refuses to answer, or is overloaded.
pub fn of_listed(
    connection: &Connection,
    images: &[Listed],
) -> Result<Vec<Option<Vec<ImageBase>>>> {
    let all = connection.registry.meta_files_of(images, &[ENV_JSON])?;
    let is_of_all = |error: &cabane_registry::Error| {
        error.is_about_connection()
            || error.is_busy()
            || matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Forbidden)
    };
    let bases = all.into_iter().map(|files| match files {
        Ok(files) => Ok(Some(named_in(files))),
        Err(error) if is_of_all(&error) => Err(error.into()),
        Err(error) if matches!(error.kind, ErrorKind::NoSuchImage | ErrorKind::NotAnImage) => {
            Ok(Some(Vec::new()))
        }
        Err(_) => Ok(None),
    });
    bases.collect()
}

/// Returns the labels of the images in the same namespace of a registry that would lose their base with the
/// label of an image. If the image has no tag of a base, nothing was built on it, and the metadata of the
/// others are not read.
///
/// # Errors
///
/// Those of asking.
pub fn built_on_remote(
    context: &Context,
    connection: &Connection,
    image: &RemoteImage,
) -> Result<Vec<Label>> {
    let registry = &connection.registry;
    if registry.held_base(&image.place, &image.digest)?.is_none()
        || registry.has_other_label(image)?
    {
        return Ok(Vec::new());
    }
    let wanted = Wanted { namespace: &image.place.namespace, pattern: None, how: NameMatch::Exact };
    let mut others = registry.find(&wanted, context.settings.registry.listing.value)?;
    others.retain(|one| one.digest != image.digest);
    let bases = of_listed(connection, &others)?;
    let is_built_on = |bases: &Option<Vec<ImageBase>>| {
        bases.iter().flatten().any(|base| base.digest == image.digest)
    };
    let built = others.into_iter().zip(bases).filter(|(_, bases)| is_built_on(bases));
    Ok(built.map(|(one, _)| one.label).collect())
}

/// Adds an image on which another one is built. If its label belongs to another image, here or in the
/// registry, it gets a label with its ID.
fn add(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    (found, group): (&FoundBase, Option<&String>),
) -> Result<Added> {
    let FoundBase { image, has_label } = found;
    let label = &image.place.label;
    let other = repository.by_label(label)?.filter(|one| one.digest != image.digest);
    let mut by_id = label.clone();
    by_id.tag = image.digest.id().as_str().parse()?;
    let label = match other {
        Some(other) => {
            let (base, other) = (image.digest.id(), other.digest.id());
            context.note(format_args!(
                "{label} is the image {other} here; the base {base} gets the label {by_id}"
            ));
            by_id
        }
        None if *has_label => label.clone(),
        None => {
            context.note(format_args!(
                "the registry has given the label of the base {} to another image; it gets the label \
                 {by_id}",
                image.digest.id()
            ));
            by_id
        }
    };
    let wanted = ToAdd { image, label, group, force: false };
    add_image(context, connection, repository, &wanted)
}

/// An image on which another one is built.
pub(crate) struct FoundBase {
    pub(crate) image: RemoteImage,
    /// Whether its label in the registry is still its own.
    pub(crate) has_label: bool,
}

/// Finds an image on which another one is built by its digest, under whatever label it is, or without
/// one. `top` is the place of the other image.
///
/// # Errors
///
/// Those of asking.
pub(crate) fn find(
    context: &Context,
    connection: &Connection,
    top: &Place,
    base: &ImageBase,
) -> Result<Option<FoundBase>> {
    if let Some(found) = find_as_recorded(connection, top, base)? {
        return Ok(Some(found));
    }
    let (namespace, listing) = (&top.namespace, context.settings.registry.listing.value);
    let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
    let listed = match connection.registry.find(&wanted, listing) {
        // Then there is no other way to look for it.
        Err(error) if error.kind == ErrorKind::NoListing => return Ok(None),
        listed => listed?,
    };
    let is_base = |one: &Listed| one.digest == base.digest;
    let mut listed = listed.into_iter().find(is_base);
    if listed.is_none() {
        // It may have been pushed a moment ago.
        connection.registry.forget_list(namespace);
        listed = compare(context, connection, &wanted)?.images.into_iter().find(is_base);
    }
    let labeled = listed.map(|one| listed_image(context, connection, &one)).transpose()?.flatten();
    if let Some(image) = labeled.filter(|image| image.digest == base.digest) {
        return Ok(Some(FoundBase { image, has_label: true }));
    }
    let held = connection.registry.find_held_base(namespace, &base.digest, listing)?;
    Ok(held.map(|image| FoundBase { image, has_label: false }))
}

/// Looks where the other image says that the base was.
fn find_as_recorded(
    connection: &Connection,
    top: &Place,
    base: &ImageBase,
) -> Result<Option<FoundBase>> {
    let Some(place) = place_of(top, base) else { return Ok(None) };
    let registry = &connection.registry;
    let labeled = registry.image_if_there(&place)?.filter(|one| one.digest == base.digest);
    if let Some(image) = labeled {
        return Ok(Some(FoundBase { image, has_label: true }));
    }
    let held = registry.held_base(&place, &base.digest)?;
    Ok(held.map(|image| FoundBase { image, has_label: false }))
}

/// Returns where the base was when the other image was built, if its recipe named it by its label.
fn place_of(top: &Place, base: &ImageBase) -> Option<Place> {
    let pattern: LabelPattern = base.label.parse().ok()?;
    let mut label = top.label.clone();
    label.name = pattern.name?;
    label.version = pattern.version?;
    label.tag = match pattern.tag {
        Some(tag) => tag,
        None => "v1".parse().ok()?,
    };
    if let Some(SystemPattern::Is(system)) = pattern.system {
        label.system = system;
    }
    label.uarch = pattern.uarch.unwrap_or(label.uarch);
    Some(Place { namespace: top.namespace.clone(), label })
}

/// Keeps the images in the registry on which a pushed image is built, and the image itself if images of
/// this user are built on it: then pulls find them by their digests, whatever becomes of their labels. A
/// user who may not write there gets a warning.
pub(crate) fn hold(
    context: &Context,
    connection: &Connection,
    pushed: &RemoteImage,
    meta: Option<&Meta>,
) {
    let registry = &connection.registry;
    let outcome = || -> Result<()> {
        for base in meta.map_or(&[][..], |meta| &meta.bases) {
            // One that is pushed later is held by that push.
            if let Some(found) = find_as_recorded(connection, &pushed.place, base)? {
                registry.hold_base(&found.image)?;
            }
        }
        let repositories = context.repositories()?;
        let mut all = repositories.iter().map(|one| one.repository.built_on(&pushed.digest));
        if all.any(|labels| labels.is_ok_and(|labels| !labels.is_empty())) {
            registry.hold_base(pushed)?;
        }
        Ok(())
    };
    if let Err(error) = outcome() {
        context.warning(format_args!(
            "the registry does not keep the bases of {} if their labels move: {error}",
            pushed.place.label
        ));
    }
}
