// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is different between two documents.

use cabane_label::Label;

use crate::document::{ChannelDocument, Entry, Revocation, Waiver};

/// One difference between two documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// An image that was not there.
    Added(&'a Entry),
    /// Another image of the same name, version, and microarchitecture: before and after.
    Replaced(&'a Entry, &'a Entry),
    /// An image that is gone.
    Removed(&'a Entry),
    /// The name without a version means this version now; before, it may have meant another.
    Default(&'a Entry, Option<&'a Label>),
    /// When it is retired, and what replaces it.
    Retirement(&'a Entry),
    /// A rule no longer applies to an image.
    Waived(&'a Waiver),
    /// Nobody should use an image any more.
    Revoked(&'a Revocation),
}

/// Lists what is different in the document `after`.
pub fn changes<'a>(before: &'a ChannelDocument, after: &'a ChannelDocument) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for entry in &after.entries {
        let old = before.entry(&entry.label);
        match old {
            None => changes.push(Change::Added(entry)),
            Some(old) if old.manifest != entry.manifest || old.label != entry.label => {
                changes.push(Change::Replaced(old, entry));
            }
            Some(_) => {}
        }
        if old.is_some_and(|old| old.retirement != entry.retirement)
            || old.is_none() && entry.retirement.is_some()
        {
            changes.push(Change::Retirement(entry));
        }
        let meant = before.default_beside(&entry.label).map(|old| &old.label);
        let is_meant = meant.is_some_and(|label| entry.is_same_thing(label));
        if entry.is_default && !is_meant {
            changes.push(Change::Default(entry, meant));
        }
    }
    let gone = before.entries.iter().filter(|old| after.entry(&old.label).is_none());
    changes.extend(gone.map(Change::Removed));
    let is_new = |one: &&Waiver| !before.waivers.contains(one);
    changes.extend(after.waivers.iter().filter(is_new).map(Change::Waived));
    let is_new = |one: &&Revocation| !before.revoked.contains(one);
    changes.extend(after.revoked.iter().filter(is_new).map(Change::Revoked));
    changes
}
