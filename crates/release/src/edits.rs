// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Other changes of a channel.

use cabane_channel::{
    ChannelDocument, Entry, Retirement, Revocation, VerifiedChannel, Waiver, document_of, place_of,
    today,
};
use cabane_label::{
    ChannelPattern, Digest, ImageDescription, Label, LabelPattern, NameMatch, SystemPattern,
};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, find_remote};
use jiff::civil::Date;

use crate::gate::WaivedRule;
use crate::history::before;
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
    let is_tag = image.tag.as_ref().is_none_or(|tag| *tag == label.tag || place.name.is_tag(tag));
    let is_system = match &image.system {
        Some(SystemPattern::Is(system)) => *system == label.system,
        _ => true,
    };
    if !is_tag || !is_system {
        let message = format!("the channel {place} releases {label}, and not `{image}`");
        return Err(Report::new(Kind::NotFound, message)
            .hinted(format!("leave the rest out: `{}/{}`", label.name, label.version)));
    }
    let mut entries = document.entries.iter_mut();
    entries.find(|entry| entry.label == label).ok_or_else(|| {
        Report::new(Kind::NotFound, format!("the channel {place} has no image `{image}`"))
    })
}

/// Says that nobody should use an image any more, and removes it from the channel. What the channel
/// releases counts, and not which image a tag of the registry has now.
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
    let (digest, label) = to_revoke(context, connection, channel, typed)?;
    let revocation = Revocation { digest, label, reason, date: today() };
    let published = publish(context, connection, channel, manager, &mut |document| {
        document.entries.retain(|entry| entry.digest != revocation.digest);
        document.choose_default(&revocation.label);
        document.revoked.retain(|one| one.digest != revocation.digest);
        document.revoked.push(revocation.clone());
        Ok(())
    })?;
    Ok((published, revocation))
}

/// Finds an image among those of the channel, or else in the registry.
fn to_revoke(
    context: &Context,
    connection: &Connection,
    channel: &ChannelPattern,
    typed: &str,
) -> Result<(Digest, Label)> {
    let (setting, place) = place_of(context, channel)?;
    let target = Target { context, registry: &connection.registry, setting, place: &place };
    let description: ImageDescription = typed.parse()?;
    let document = target.before()?.map(|before| before.document);
    let document = document.unwrap_or_else(|| ChannelDocument::empty(&place));
    let fits = |entry: &&Entry| match &description {
        ImageDescription::Digest(digest) => entry.digest == *digest,
        ImageDescription::Id(id) => entry.digest.id() == *id,
        ImageDescription::Pattern(pattern) => {
            let is_channel = pattern.tag.as_ref().is_some_and(|tag| place.name.is_tag(tag));
            let tag = pattern.tag.clone().filter(|_| !is_channel);
            let pattern = LabelPattern { tag, ..pattern.clone() };
            pattern.matches(&entry.label, NameMatch::Exact)
        }
        ImageDescription::Path(_) | ImageDescription::Container(_) => false,
    };
    let found: Vec<&Entry> = document.entries.iter().filter(fits).collect();
    match found.as_slice() {
        [entry] => Ok((entry.digest.clone(), entry.label.clone())),
        [] => {
            let images = find_remote(context, connection, typed, &description)?;
            let image = images.first().ok_or_else(|| {
                Report::new(Kind::NotFound, format!("no image matches `{typed}`"))
            })?;
            Ok((image.digest.clone(), image.place.label.clone()))
        }
        several => Err(document.ambiguous(&typed, several)),
    }
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
    if request.until < today() {
        let message = format!("the day {} is over", request.until);
        return Err(Report::new(Kind::Usage, message)
            .hinted("`--until` names the last day on which the waiver counts".to_owned()));
    }
    request.rule.check(&place_of(context, channel)?.0.runs_on)?;
    let description: ImageDescription = request.image.parse()?;
    let images = find_remote(context, connection, &request.image, &description)?;
    let waivers: Vec<_> = images
        .iter()
        .map(|image| Waiver {
            manifest: image.manifest.clone(),
            label: image.place.label.clone(),
            rule: request.rule.to_string(),
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
    pub rule: WaivedRule,
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
    let Some(current) = target.before()? else {
        return Err(missing(0));
    };
    let old = match to {
        Some(serial) if serial >= current.document.serial => return Err(missing(serial)),
        Some(serial) => document_of(&connection.registry, setting, &place, serial)?
            .ok_or_else(|| missing(serial))?,
        None => before(&connection.registry, setting, &place, &current)
            .ok_or_else(|| missing(current.document.serial.saturating_sub(1)))?,
    };
    let (serial, old) = (old.document.serial, old.document);
    let published = target.publish(manager, &mut |document| {
        // What somebody else did in the meantime must not be undone unseen.
        if document.entries != current.document.entries {
            let message = format!("someone else changed the channel {place} at the same time");
            let hint = format!("look at `cabane channel log {place}`, and try again");
            return Err(Report::new(Kind::Failure, message).hinted(hint));
        }
        let known = std::mem::replace(&mut document.entries, old.entries.clone());
        let revoked: Vec<_> = document.revoked.iter().map(|one| one.digest.clone()).collect();
        document.entries.retain(|entry| !revoked.contains(&entry.digest));
        for entry in &mut document.entries {
            // What was away comes in anew: rules of other channels count from then on.
            if !known.iter().any(|one| one.manifest == entry.manifest) {
                (entry.since, entry.promoted) = (document.serial, document.issued);
            }
        }
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
