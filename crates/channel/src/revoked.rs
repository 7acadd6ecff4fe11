// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that a channel has revoked, as far as is known here.

use cabane_label::{ChannelPattern, Digest};
use cabane_registry::ChannelPlace;
use cabane_site::Context;

use crate::document::Revocation;
use crate::memory::{Memory, Seen};
use crate::verified::VerifiedChannel;

/// Returns the channel that has revoked an image, and why, by the documents that were seen here. It does
/// not matter under which label, or in which registry, the image was found. No registry is asked.
pub fn known_revocation(context: &Context, digest: &Digest) -> Option<(ChannelPlace, Revocation)> {
    if context.settings.channels.is_empty() {
        return None;
    }
    Memory::all(context).iter().find_map(|seen| {
        let document = verified(context, seen)?.document;
        Some((document.place(), document.revocation(digest)?.clone()))
    })
}

/// Checks a document that was kept, if its channel is configured.
fn verified(context: &Context, seen: &Seen) -> Option<VerifiedChannel> {
    let ChannelPattern { namespace, name, system, .. } = seen.channel.parse().ok()?;
    let place = ChannelPlace { namespace: namespace?, name, system: system? };
    let mut channels = context.settings.channels.iter();
    let setting = channels.find(|one| one.name == place.name && one.namespace == place.namespace);
    VerifiedChannel::open(setting?, &place, &seen.envelope).ok()
}
