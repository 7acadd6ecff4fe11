// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The documents of a channel, the newest first.

use cabane_channel::{ChannelDocument, VerifiedChannel, document_of, place_of, read_channel};
use cabane_label::ChannelPattern;
use cabane_registry::{ChannelPlace, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_site::settings::ChannelSetting;
use cabane_transfer::Connection;

/// A document, and the one before it.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    /// The document.
    pub channel: VerifiedChannel,
    /// The one before, as far as the registry has it.
    pub before: Option<ChannelDocument>,
}

/// Returns the document that was typed: the current one, or that of a serial number.
///
/// # Errors
///
/// There is none, or it is not trusted.
pub fn document(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
) -> Result<VerifiedChannel> {
    let (setting, place) = place_of(context, channel)?;
    let registry = &connection.registry;
    let Some(serial) = channel.serial else {
        return read_channel(context, registry, setting, &place);
    };
    document_of(registry, setting, &place, serial)?.ok_or_else(|| {
        let message = format!("the channel {place} has no document number {serial}");
        let hint = format!("`cabane channel log {place}` lists them");
        Report::new(Kind::NotFound, message).hinted(hint)
    })
}

/// Returns the newest documents of a channel, at most `most`, as far as each names the one before it.
///
/// # Errors
///
/// The channel is not there or not trusted. A document before it that is missing, or another than the
/// one after it names, is a warning and ends the list.
pub fn history(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    most: usize,
) -> Result<Vec<HistoryEntry>> {
    let (setting, place) = place_of(context, channel)?;
    let registry = &connection.registry;
    let mut next = Some(document(context, connection, channel)?);
    let mut entries: Vec<HistoryEntry> = Vec::new();
    while let Some(found) = next.take().filter(|_| entries.len() < most) {
        let before = before(registry, setting, &place, &found);
        if before.is_none() && found.document.previous.is_some() {
            let serial = found.document.serial;
            context.warning(format_args!(
                "the state before number {serial} of the channel {place} is gone, was replaced, or is \
                 not signed with a key that counts"
            ));
        }
        entries.push(HistoryEntry {
            channel: found,
            before: before.as_ref().map(|before| before.document.clone()),
        });
        next = before;
    }
    Ok(entries)
}

/// Returns the document that another one names as the one before it, as far as the registry has it.
pub(crate) fn before(
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
    after: &VerifiedChannel,
) -> Option<VerifiedChannel> {
    let previous = after.document.previous.as_ref()?;
    let serial = after.document.serial;
    // A number is left out where two managers had published under one.
    let mut numbers = (serial.saturating_sub(2).max(1)..serial).rev();
    numbers.find_map(|serial| {
        let found = document_of(registry, setting, place, serial).ok()??;
        (found.digest == *previous).then_some(found)
    })
}
