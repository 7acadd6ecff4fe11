// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a registry that a channel releases, and the names here that follow it.

use std::fmt;

use cabane_channel::{
    Entry, State, VerifiedChannel, channel_of, known_revocation, read_channel, today,
};
use cabane_label::{Digest, LabelPattern, escape};
use cabane_registry::RemoteImage;
use cabane_report::{Kind, Report, Result};
use cabane_repository::{Followed, FollowedName, Release, Repository};
use cabane_site::Context;

use crate::registry::Connection;

/// An image that a channel releases.
pub(crate) struct ReleasedImage {
    /// The image.
    pub(crate) image: RemoteImage,
    /// What the channel says of it.
    pub(crate) entry: Entry,
    /// The document of the channel.
    pub(crate) channel: VerifiedChannel,
}

/// Returns the image that a channel releases for a pattern whose tag is the name of the channel;
/// `None` if it is an ordinary tag.
///
/// # Errors
///
/// The channel is not trusted, has no such image, or one that the registry does not have.
pub(crate) fn released_image(
    context: &Context,
    connection: &Connection,
    pattern: &LabelPattern,
) -> Result<Option<ReleasedImage>> {
    let namespace = connection.namespace_of(Some(pattern));
    let Some((setting, place)) = channel_of(context, &namespace, pattern)? else {
        return Ok(None);
    };
    let channel = read_channel(context, &connection.registry, setting, &place)?;
    let released = image_of(connection, channel, pattern)?;
    let (label, serial) = (&released.entry.label, released.channel.document.serial);
    context.detail(format_args!("{place}, number {serial}, releases {label}"));
    announce_retirement(context, &released);
    Ok(Some(released))
}

/// Returns the image that the document of a channel names. It names the manifest, so that it does not
/// matter which image the tags of the registry have.
pub(crate) fn image_of(
    connection: &Connection,
    channel: VerifiedChannel,
    pattern: &LabelPattern,
) -> Result<ReleasedImage> {
    let document = &channel.document;
    let entry = document.released(pattern, today())?.clone();
    let place = document.place_of(&entry);
    let found = connection.registry.image_of_manifest(&place, &entry.manifest)?;
    let image = found.filter(|image| image.digest == entry.digest).ok_or_else(|| {
        let (channel, label) = (document.place(), &entry.label);
        let message =
            format!("the registry has lost {label}, which the channel {channel} releases");
        Report::new(Kind::Registry, message).hinted(format!(
            "a release manager pushes it again and promotes it, or retires it from {channel}"
        ))
    })?;
    Ok(ReleasedImage { image, entry, channel })
}

fn announce_retirement(context: &Context, released: &ReleasedImage) {
    let entry = &released.entry;
    let (State::Deprecated, Some(retirement)) = (entry.state(today()), &entry.retirement) else {
        return;
    };
    let (channel, label) = (released.channel.document.place(), &entry.label);
    let reason = retirement.reason.as_deref().map(|one| format!(": {}", escape(one)));
    let (date, reason) = (retirement.date, reason.unwrap_or_default());
    context.note(format_args!("{label} will be retired from {channel} on {date}{reason}"));
    if let Some(replacement) = &retirement.replacement {
        context.hint(format_args!("use `{replacement}` instead"));
    }
}

/// Lets a name here be the released image. Returns what it was before.
///
/// # Errors
///
/// Those of writing.
pub(crate) fn follow(
    connection: &Connection,
    repository: &Repository,
    released: &ReleasedImage,
    name: &FollowedName,
) -> Result<Option<Release>> {
    let document = &released.channel.document;
    let entry = &released.entry;
    let retirement = entry.retirement.as_ref();
    let followed = Followed {
        registry: connection.registry.remembered_as(),
        namespace: document.namespace.clone(),
        serial: document.serial,
        release: Release { label: entry.label.clone(), digest: entry.digest.clone() },
        previous: None,
        retired: retirement.map(|one| one.date),
        replacement: retirement.and_then(|one| one.replacement.clone()),
    };
    Ok(repository.follow(&document.channel, name, &followed)?)
}

/// Checks that no channel of the configuration revokes an image, as far as its documents were seen
/// here.
///
/// # Errors
///
/// One does.
pub(crate) fn check_revoked(
    context: &Context,
    name: &dyn fmt::Display,
    digest: &Digest,
) -> Result<()> {
    let Some((channel, revoked)) = known_revocation(context, digest) else {
        return Ok(());
    };
    let (date, reason) = (revoked.date, escape(&revoked.reason));
    let message = format!("the channel {channel} revoked {name} on {date}: {reason}");
    Err(Report::new(Kind::Untrusted, message)
        .hinted(format!("`cabane channel show {channel}` lists the images that are released")))
}
