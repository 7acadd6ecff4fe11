// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that a channel has revoked, as far as is known here.

use cabane_label::{Digest, Namespace, System};
use cabane_registry::{Address, ChannelPlace};
use cabane_site::Context;

use crate::document::Revocation;
use crate::memory::Memory;
use crate::verified::VerifiedChannel;

/// Returns the channel that has revoked an image, and why, by the documents that were seen here. The
/// channels are those of the configuration: of a namespace and registry, or of all namespaces and the
/// configured registry. No registry is asked.
pub fn known_revocation(
    context: &Context,
    of: Option<(&Address, &Namespace)>,
    system: &System,
    digest: &Digest,
) -> Option<(ChannelPlace, Revocation)> {
    let address = match of {
        Some((address, _)) => address,
        None => context.settings.registry.address.value.as_ref()?,
    };
    let is_meant = |namespace| of.is_none_or(|(_, meant)| meant == namespace);
    let channels = context.settings.channels.iter().filter(|one| is_meant(&one.namespace));
    channels.into_iter().find_map(|setting| {
        let place = ChannelPlace {
            namespace: setting.namespace.clone(),
            name: setting.name.clone(),
            system: system.clone(),
        };
        let seen = Memory::of(context, address, &place).read()?;
        let seen = VerifiedChannel::open(setting, &place, &seen.envelope).ok()?;
        let revocation = seen.document.revocation(digest)?.clone();
        Some((place, revocation))
    })
}
