// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Getting the document of a channel, by the rules of clients.
//!
//! A document counts only if one of the configured keys has signed it. Serial numbers never go back,
//! and no number has two documents. A document that has expired is a warning, or refused.

use cabane_recipe::Labels;
use cabane_registry::{ChannelPlace, ErrorKind, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_site::settings::ChannelSetting;
use jiff::{SignedDuration, Timestamp};

use crate::memory::{Memory, Seen};
use crate::verified::{VerifiedChannel, channel_keys, untrusted};

/// How many documents with higher numbers may be there that nobody has signed.
const MOST_UNSIGNED: usize = 64;
/// How long it may take from signing a document until it is the current one. A younger one may yet be
/// replaced by that of another release manager.
pub const PUBLISHING: SignedDuration = SignedDuration::from_secs(10);

/// Gets the current document of a channel, by the rules of clients, and remembers it.
///
/// # Errors
///
/// There is none, or it is not trusted.
pub fn read_channel(
    context: &Context,
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
) -> Result<VerifiedChannel> {
    let memory = Memory::of(context, registry, place);
    let seen = memory.read().filter(|seen| {
        // A key that no longer counts cannot hold the channel at a number.
        VerifiedChannel::open(setting, place, &seen.envelope).is_ok()
    });
    let Newest { current, pending } = newest(context, registry, setting, place)?;
    // One that was seen before is published, whatever the tag of the channel says.
    let is_known =
        |one: &VerifiedChannel| seen.as_ref().is_some_and(|seen| seen.digest == one.digest);
    let found = match pending {
        Some(pending) if current.is_none() || is_known(&pending) => Some(pending),
        _ => current,
    };
    let found = match (found, &seen) {
        (Some(found), _) => found,
        (None, Some(seen)) => return Err(vanished(setting, place, seen)?),
        (None, None) if setting.minimum_serial > 0 => {
            let reason =
                format!("it is gone, and the configuration wants {}", setting.minimum_serial);
            return Err(untrusted(setting, place, &reason, &channel_keys(setting)?));
        }
        (None, None) => return Err(no_channel(registry, place)),
    };
    compare(setting, place, &found, seen.as_ref())?;
    check_age(context, setting, &found)?;
    memory.keep(context, &found);
    Ok(found)
}

/// The newest documents that a registry has of a channel.
#[derive(Clone, Debug, Default)]
pub struct Newest {
    /// The current one.
    pub current: Option<VerifiedChannel>,
    /// One that follows it, and is being published at this moment.
    pub pending: Option<VerifiedChannel>,
}

/// Gets the newest document that the registry has, without a look at what was seen before: the current
/// one, or one with a higher number.
///
/// So a tag that is moved back hides nothing, and a killed promotion counts after [`PUBLISHING`]. What
/// is not signed is named and ignored.
///
/// # Errors
///
/// That no document is trusted, or that the registry was not reached.
pub fn newest(
    context: &Context,
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
) -> Result<Newest> {
    let mut newest = Newest::default();
    let mut refused = None;
    match current_document(registry, setting, place) {
        Ok(current) => newest.current = current,
        Err(error) if error.kind() == Kind::Untrusted => {
            context.warning(format_args!("`{}` is ignored: {error}", place.name));
            refused = Some(error);
        }
        Err(error) => return Err(error),
    }
    let known = newest.current.as_ref().map_or(0, |current| current.document.serial);
    let mut unsigned = 0;
    for serial in registry.channel_numbers(place)?.into_iter().filter(|serial| *serial > known) {
        match document_of(registry, setting, place, serial) {
            Ok(Some(found)) => {
                if Timestamp::now().duration_since(found.document.issued) < PUBLISHING {
                    newest.pending.get_or_insert(found);
                } else {
                    newest.current = Some(found);
                    break;
                }
            }
            Ok(None) => {}
            Err(error) if error.kind() == Kind::Untrusted => {
                let name = &place.name;
                context.warning(format_args!("`{name}.{serial}` is ignored: {error}"));
                refused.get_or_insert(error);
                unsigned += 1;
                if unsigned > MOST_UNSIGNED {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    match refused {
        // Nothing that is there counts.
        Some(error) if newest.current.is_none() && newest.pending.is_none() => Err(error),
        _ => Ok(newest),
    }
}

/// Gets the document that the tag of the channel has, verified.
///
/// # Errors
///
/// That it is not trusted, or that the registry was not reached.
pub fn current_document(
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
) -> Result<Option<VerifiedChannel>> {
    open_if_there(registry, setting, place, None)
}

fn open_if_there(
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
    serial: Option<u64>,
) -> Result<Option<VerifiedChannel>> {
    let envelope = match registry.channel_document(place, serial) {
        Err(error) if error.kind == ErrorKind::Document => {
            return Err(Report::from(error).with_kind(Kind::Untrusted));
        }
        envelope => envelope?,
    };
    envelope.map(|envelope| VerifiedChannel::open(setting, place, &envelope)).transpose()
}

/// Gets the document of a serial number, verified; `None` if there is none.
///
/// # Errors
///
/// That it is not trusted, or that the registry was not reached.
pub fn document_of(
    registry: &Registry,
    setting: &ChannelSetting,
    place: &ChannelPlace,
    serial: u64,
) -> Result<Option<VerifiedChannel>> {
    let Some(found) = open_if_there(registry, setting, place, Some(serial))? else {
        return Ok(None);
    };
    if found.document.serial != serial {
        let reason = format!("the document {serial} has the number {}", found.document.serial);
        return Err(untrusted(setting, place, &reason, &channel_keys(setting)?));
    }
    Ok(Some(found))
}

/// Compares a document with what was seen.
fn compare(
    setting: &ChannelSetting,
    place: &ChannelPlace,
    found: &VerifiedChannel,
    seen: Option<&Seen>,
) -> Result<()> {
    let serial = found.document.serial;
    let refuse = |reason: String| Err(untrusted(setting, place, &reason, &channel_keys(setting)?));
    if serial < setting.minimum_serial {
        let least = setting.minimum_serial;
        return refuse(format!("it is at number {serial}, and the configuration wants {least}"));
    }
    let Some(seen) = seen else {
        return Ok(());
    };
    if serial < seen.serial {
        return refuse(format!("it went back from number {} to {serial}", seen.serial));
    }
    if serial == seen.serial && found.digest != seen.digest {
        return refuse(format!("there are two documents with the number {serial}"));
    }
    let is_next = serial == seen.serial.saturating_add(1);
    if is_next && found.document.previous.as_ref() != Some(&seen.digest) {
        let before = seen.serial;
        return refuse(format!("number {serial} follows another document {before}"));
    }
    Ok(())
}

/// Checks that a document has not expired. Where the configuration does not refuse that, the answer is
/// a warning.
fn check_age(context: &Context, setting: &ChannelSetting, found: &VerifiedChannel) -> Result<()> {
    let expires = found.document.expires;
    if Timestamp::now() < expires {
        return Ok(());
    }
    let place = found.document.place();
    let reason = format!("its document expired on {}", expires.strftime("%F"));
    let error = untrusted(setting, &place, &reason, &channel_keys(setting)?);
    match setting.expired {
        Labels::Refuse => Err(error),
        Labels::Warn => {
            context.warning(format_args!("the channel {place}: {reason}"));
            context.hint(
                "someone may hold it back; a release manager renews it: `cabane channel renew`",
            );
            Ok(())
        }
    }
}

fn vanished(setting: &ChannelSetting, place: &ChannelPlace, seen: &Seen) -> Result<Report> {
    let reason = format!("it is gone, and was at number {}", seen.serial);
    Ok(untrusted(setting, place, &reason, &channel_keys(setting)?))
}

fn no_channel(registry: &Registry, place: &ChannelPlace) -> Report {
    let message = format!("there is no channel {place} in the registry {}", registry.address());
    Report::new(Kind::NotFound, message).hinted(format!(
        "a release manager starts it: `cabane channel promote {place} LABEL --key FILE`"
    ))
}
