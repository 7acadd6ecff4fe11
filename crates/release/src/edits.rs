// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Other changes of a channel.

use cabane_channel::{
    ChannelDocument, Entry, Retirement, Revocation, VerifiedChannel, Waiver, document_of, place_of,
    today,
};
use cabane_label::{ChannelPattern, ImageDescription, LabelPattern};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, find_remote};
use jiff::civil::Date;

use crate::gate::GateRule;
use crate::manager::Manager;
use crate::publish::Target;

/// What is to be retired.
#[derive(Clone, Debug)]
pub struct Retire {
    /// The image, as a label without its tag.
    pub image: LabelPattern,
    /// The first day without it; by default today.
    pub date: Option<Date>,
    /// What to use instead.
    pub replacement: Option<LabelPattern>,
    /// Whether it is not retired after all.
    pub is_cancelled: bool,
}

/// Publishes an edit of a channel that was typed.
fn publish(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
    edit: &mut dyn FnMut(&mut ChannelDocument) -> Result<()>,
) -> Result<VerifiedChannel> {
    let (setting, place) = place_of(context, channel)?;
    let target = Target { context, registry: &connection.registry, setting, place: &place };
    target.publish(manager, edit)
}

/// Says from which day an image is no longer released, and what to use instead.
///
/// # Errors
///
/// The channel has no such image; and those of publishing.
pub fn retire(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
    request: &Retire,
) -> Result<(VerifiedChannel, Entry)> {
    let mut retired = None;
    let published = publish(context, connection, channel, manager, &mut |document| {
        let entry = entry_mut(document, &request.image)?;
        entry.retirement = (!request.is_cancelled).then(|| Retirement {
            date: request.date.unwrap_or_else(today),
            replacement: request.replacement.clone(),
            reason: manager.reason.clone(),
        });
        retired = Some(entry.clone());
        Ok(())
    })?;
    // Publishing calls the edit at least once.
    retired.map(|entry| (published, entry)).ok_or_else(|| Report::new(Kind::Failure, "no change"))
}

/// Finds one entry, also one that is retired already.
fn entry_mut<'d>(document: &'d mut ChannelDocument, image: &LabelPattern) -> Result<&'d mut Entry> {
    // A day before all retirements.
    let label = document.released(image, Date::MIN)?.label.clone();
    let place = document.place();
    let mut entries = document.entries.iter_mut();
    entries.find(|entry| entry.label == label).ok_or_else(|| {
        Report::new(Kind::NotFound, format!("the channel {place} has no image `{image}`"))
    })
}

/// Says that nobody should use an image any more, and removes it from the channel.
///
/// # Errors
///
/// There is no such image; and those of publishing.
pub fn revoke(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
    typed: &str,
) -> Result<(VerifiedChannel, Revocation)> {
    let reason = manager.reason.clone().unwrap_or_default();
    let description: ImageDescription = typed.parse()?;
    let images = find_remote(context, connection, typed, &description)?;
    let image = images.first().ok_or_else(|| {
        Report::new(Kind::NotFound, format!("no image in the registry matches `{typed}`"))
    })?;
    let revocation = Revocation {
        digest: image.digest.clone(),
        label: image.place.label.clone(),
        reason,
        date: today(),
    };
    let published = publish(context, connection, channel, manager, &mut |document| {
        document.entries.retain(|entry| entry.digest != revocation.digest);
        document.revoked.retain(|one| one.digest != revocation.digest);
        document.revoked.push(revocation.clone());
        Ok(())
    })?;
    Ok((published, revocation))
}

/// Says that a rule of the gate does not apply to an image, until a day.
///
/// # Errors
///
/// There is no such image; and those of publishing.
pub fn waive(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
    request: &Waive,
) -> Result<(VerifiedChannel, Vec<Waiver>)> {
    let description: ImageDescription = request.image.parse()?;
    let images = find_remote(context, connection, &request.image, &description)?;
    let waivers: Vec<_> = images
        .iter()
        .map(|image| Waiver {
            manifest: image.manifest.clone(),
            label: image.place.label.clone(),
            rule: request.rule.name().to_owned(),
            reason: manager.reason.clone().unwrap_or_default(),
            by: manager.by.clone(),
            until: request.until,
        })
        .collect();
    let published = publish(context, connection, channel, manager, &mut |document| {
        let is_new = |one: &&Waiver| {
            !waivers.iter().any(|new| new.manifest == one.manifest && new.rule == one.rule)
        };
        document.waivers = document.waivers.iter().filter(is_new).cloned().collect();
        document.waivers.extend(waivers.iter().cloned());
        Ok(())
    })?;
    Ok((published, waivers))
}

/// What is to be waived.
#[derive(Clone, Debug)]
pub struct Waive {
    /// The image, as it is typed.
    pub image: String,
    /// The rule.
    pub rule: GateRule,
    /// The last day on which it does not apply.
    pub until: Date,
}

/// Publishes the images of an earlier document again, under a new serial number. What was revoked stays
/// revoked.
///
/// # Errors
///
/// There is no such document, or none before the current one; and those of publishing.
pub fn rollback(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
    to: Option<u64>,
) -> Result<(VerifiedChannel, u64)> {
    let (setting, place) = place_of(context, channel)?;
    let target = Target { context, registry: &connection.registry, setting, place: &place };
    let missing = |serial: u64| {
        let message = format!("the channel {place} has no document number {serial}");
        let hint = format!("`cabane channel log {place}` lists them");
        Report::new(Kind::NotFound, message).hinted(hint)
    };
    let current = target.before()?.map_or(0, |before| before.document.serial);
    let serial = to.unwrap_or(current.saturating_sub(1));
    if serial == 0 || serial >= current {
        return Err(missing(serial));
    }
    let old = document_of(&connection.registry, setting, &place, serial)?;
    let old = old.ok_or_else(|| missing(serial))?.document;
    let published = target.publish(manager, &mut |document| {
        document.entries.clone_from(&old.entries);
        let revoked: Vec<_> = document.revoked.iter().map(|one| one.digest.clone()).collect();
        document.entries.retain(|entry| !revoked.contains(&entry.digest));
        Ok(())
    })?;
    Ok((published, serial))
}

/// Publishes the same images again, with the present time, so that the channel does not expire.
///
/// # Errors
///
/// The channel does not exist; and those of publishing.
pub fn renew(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    manager: &Manager,
) -> Result<VerifiedChannel> {
    publish(context, connection, channel, manager, &mut |document| {
        if document.previous.is_none() && document.entries.is_empty() && document.by.is_empty() {
            let message = format!("there is no channel {}", document.place());
            return Err(Report::new(Kind::NotFound, message)
                .hinted("`cabane channel promote` starts one".to_owned()));
        }
        Ok(())
    })
}
