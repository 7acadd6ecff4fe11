// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What happened to the images, by time. Pure.

use cabane_channel::{Change, ChannelDocument, changes};
use jiff::Timestamp;
use serde::Serialize;

use crate::model::Model;

/// Something that happened to an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Event {
    pub(crate) time: Timestamp,
    /// What happened, in one sentence.
    pub(crate) title: String,
    /// The reason that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The page of the image, without the ending, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<String>,
}

/// Collects what happened, the newest first, at most `most`.
pub(crate) fn events(model: &Model<'_>, most: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for (number, row) in model.rows.iter().enumerate().rev().take(most) {
        let Some(time) = row.image.date else { continue };
        let title = format!("{} was pushed", model.label(number));
        let page = Some(model.page_name(number).to_owned());
        events.push(Event { time, title, reason: None, page });
    }
    for documents in &model.input.channels {
        for (place, after) in documents.iter().enumerate() {
            // What the oldest one that is known has changed is known only if it is the first.
            let empty = ChannelDocument::empty(&after.place());
            let before = match documents.get(place + 1) {
                Some(before) => before,
                None if after.serial == 1 => &empty,
                None => break,
            };
            add_channel(&mut events, model, before, after);
        }
    }
    events.sort_by(|one, other| other.cmp(one));
    events.truncate(most);
    events
}

fn add_channel(
    events: &mut Vec<Event>,
    model: &Model<'_>,
    before: &ChannelDocument,
    after: &ChannelDocument,
) {
    let channel = after.place().to_string();
    let namespace = &after.namespace;
    for change in changes(before, after) {
        let (label, reason, title) = match change {
            Change::Added(entry) => {
                (&entry.label, None, format!("{} was added to {channel}", entry.label))
            }
            Change::Replaced(old, new) => {
                (&new.label, None, format!("{} replaced {} in {channel}", new.label, old.label))
            }
            Change::Removed(entry) => {
                (&entry.label, None, format!("{} was removed from {channel}", entry.label))
            }
            Change::Retirement(entry) => {
                let title = match &entry.retirement {
                    Some(one) => format!("{channel} retires {} on {}", entry.label, one.date),
                    None => format!("{channel} no longer retires {}", entry.label),
                };
                let reason = entry.retirement.as_ref().and_then(|one| one.reason.clone());
                (&entry.label, reason, title)
            }
            Change::Default(entry, _) => {
                let title = format!("{} is the default version in {channel}", entry.label);
                (&entry.label, None, title)
            }
            Change::Revoked(one) => {
                (&one.label, Some(one.reason.clone()), format!("{} was revoked", one.label))
            }
            // It names people, and changes no image.
            Change::Waived(_) => continue,
        };
        let page = model.page_of_label(&format!("{namespace}::{label}")).map(str::to_owned);
        events.push(Event { time: after.issued, title, reason, page });
    }
}
