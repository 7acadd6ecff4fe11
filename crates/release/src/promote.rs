// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images are added to a channel.

use std::cmp::Ordering;

use cabane_channel::{ChannelDocument, Entry, State, VerifiedChannel, place_of, today};
use cabane_label::{ChannelPattern, ImageDescription, Label};
use cabane_registry::RemoteImage;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, find_remote};

use crate::gate::{GateRule, GateVerdict, Outcome, judge};
use crate::manager::Manager;
use crate::publish::Target;

/// What is to be promoted.
#[derive(Clone, Debug)]
pub struct PromoteRequest {
    /// The channel.
    pub channel: ChannelPattern,
    /// The images, as they are typed.
    pub images: Vec<String>,
    /// Whether the name without a version means these versions; by default, if none is newer.
    pub is_default: Option<bool>,
}

/// One image that is to be promoted.
#[derive(Clone, Debug)]
pub struct Promotion {
    /// The image.
    pub image: RemoteImage,
    /// What came of the rules.
    pub verdicts: Vec<GateVerdict>,
    /// The label that is in the channel in its place.
    pub replaces: Option<Label>,
    /// Whether the channel has this image.
    pub is_there: bool,
    /// Whether the name without a version will mean it.
    pub is_default: bool,
}

impl Promotion {
    /// Whether the image fulfills every rule, or need not.
    pub fn is_permitted(&self) -> bool {
        self.verdicts.iter().all(|one| one.outcome != Outcome::Failed)
    }
}

/// Applies the rules of the gate to what is to be promoted, and changes nothing.
///
/// # Errors
///
/// Images that are not there, or for another system; and those of asking.
pub fn plan_promotion(
    context: &Context,
    connection: &Connection,
    request: &PromoteRequest,
) -> Result<Vec<Promotion>> {
    let (setting, place) = place_of(context, &request.channel)?;
    let target = Target { context, registry: &connection.registry, setting, place: &place };
    let before = target.before()?.map(|before| before.document);
    let mut promotions = Vec::new();
    for typed in &request.images {
        let description: ImageDescription = typed.parse()?;
        for image in find_remote(context, connection, typed, &description)? {
            let label = &image.place.label;
            if image.place.namespace != place.namespace || label.system != place.system {
                let message = format!("{} cannot be in the channel {place}", image.place);
                let hint = format!(
                    "its images are in the namespace {} and for the system {}",
                    place.namespace, place.system
                );
                return Err(Report::new(Kind::BadInput, message).hinted(hint));
            }
            let verdicts = judge(target, &image, before.as_ref())?;
            let known = before.as_ref().and_then(|before| before.entry(label));
            promotions.push(Promotion {
                replaces: known.map(|known| known.label.clone()),
                is_there: known.is_some_and(|known| is_entry_of(known, &image)),
                is_default: becomes_default(before.as_ref(), label, request.is_default),
                image,
                verdicts,
            });
        }
    }
    Ok(promotions)
}

/// Promotes images that were planned, in one document.
///
/// # Errors
///
/// An image that fails a rule; and those of publishing.
pub fn promote(
    context: &Context,
    connection: &Connection,
    manager: &Manager,
    request: &PromoteRequest,
    promotions: &[Promotion],
) -> Result<VerifiedChannel> {
    let (setting, place) = place_of(context, &request.channel)?;
    let refused = promotions.iter().filter(|one| !one.is_permitted()).count();
    if refused > 0 {
        let images = if refused == 1 { "image" } else { "images" };
        let message = format!("the gate of the channel {place} rejects {refused} {images}");
        let can_be_waived =
            |one: &GateVerdict| one.outcome == Outcome::Failed && one.rule != GateRule::NotRevoked;
        let mut verdicts = promotions.iter().flat_map(|one| &one.verdicts);
        let hint = verdicts.any(can_be_waived).then(|| {
            format!(
                "nothing was promoted; a rule can be waived: `cabane channel waive {place} LABEL \
                 --rule RULE --reason TEXT --until DATE --key FILE`"
            )
        });
        return Err(Report::new(Kind::Rejected, message).hinted(hint));
    }
    for promotion in promotions {
        connection.registry.hold(&promotion.image)?;
    }
    let target = Target { context, registry: &connection.registry, setting, place: &place };
    target.publish(manager, &mut |document| {
        for promotion in promotions {
            let image = &promotion.image;
            // Another manager may have decided it a moment ago.
            if document.revocation(&image.digest).is_some() {
                let message = format!("{} is revoked", image.place);
                return Err(Report::new(Kind::Rejected, message));
            }
            let is_default =
                becomes_default(Some(document), &image.place.label, request.is_default);
            let statements = promotion.verdicts.iter().filter_map(|one| one.statement.clone());
            let mut statements: Vec<_> = statements.collect();
            statements.dedup();
            let entry = Entry {
                since: document.serial,
                promoted: document.issued,
                evidence: statements,
                ..Entry::of(image)
            };
            let entry = match document.entry(&image.place.label) {
                // An image that is promoted again keeps its date: rules of other channels count it.
                Some(known) if is_entry_of(known, image) => Entry {
                    since: known.since,
                    promoted: known.promoted,
                    retirement: known.retirement.clone(),
                    ..entry
                },
                // It is the version that is retired.
                Some(known) => Entry { retirement: known.retirement.clone(), ..entry },
                None => entry,
            };
            document.promote(entry, is_default);
        }
        Ok(())
    })
}

fn is_entry_of(entry: &Entry, image: &RemoteImage) -> bool {
    entry.manifest == image.manifest && entry.label == image.place.label
}

/// Whether a name without a version will mean a version: if none is newer, or as it was typed. Without
/// being chosen, a version stays what the name means.
fn becomes_default(document: Option<&ChannelDocument>, label: &Label, typed: Option<bool>) -> bool {
    let now = document.and_then(|document| document.default_beside(label));
    let now = now.filter(|now| now.state(today()) != State::Retired);
    match typed {
        Some(true) => true,
        Some(false) => now.is_some_and(|now| now.label.version == label.version),
        None => now
            .is_none_or(|now| now.label.version.natural_order(&label.version) != Ordering::Greater),
    }
}
