// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What takes the space of a registry, by name, by user, or by month.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{Digest, Namespace};
use cabane_registry::{Listed, Wanted};
use cabane_report::Result;
use cabane_site::Context;
use cabane_transfer::Connection;
use jiff::tz::TimeZone;
use serde::Serialize;

/// By what images are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The name.
    Name,
    /// The user who gave the label its image, as the log has it.
    User,
    /// The month in which the image was pushed, in UTC.
    Month,
}

/// Images that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The name, the user, or the month; none if it is unknown.
    pub key: Option<String>,
    /// How many labels.
    pub labels: usize,
    /// How many images; several labels may have the same.
    pub images: usize,
    /// Their size in bytes, each image counted once.
    pub bytes: u64,
    /// The size of the images that are in no other group, in bytes.
    pub own_bytes: u64,
}

/// What takes the space of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// Everything, each image counted once.
    pub total: Group,
}

/// Sums up the images of a namespace, without what is attached to them.
///
/// # Errors
///
/// Those of asking the registry.
pub fn usage(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    by: By,
) -> Result<Usage> {
    let wanted = Wanted { namespace, pattern: None, how: cabane_label::NameMatch::Exact };
    let images = connection.registry.find(&wanted, context.settings.registry.listing.value)?;
    let users =
        if by == By::User { users(context, connection, namespace)? } else { BTreeMap::new() };
    let key = |image: &Listed| match by {
        By::Name => Some(image.label.name.to_string()),
        By::User => users.get(&(image.label.to_string(), image.digest.clone())).cloned(),
        By::Month => {
            image.date.map(|date| date.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string())
        }
    };
    Ok(sum_up(images.iter().map(|image| (key(image), image))))
}

/// Returns the user who gave a label an image, as far as that was noted.
fn users(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
) -> Result<BTreeMap<(String, Digest), String>> {
    let watched = context.transfer("reading the log");
    let log = connection.registry.log_since(namespace, None, &mut |at, all| watched.show(at, all));
    watched.end();
    let entries = log?.into_iter();
    Ok(entries.filter_map(|one| Some(((one.label.to_string(), one.after?), one.by?))).collect())
}

fn sum_up<'a>(images: impl Iterator<Item = (Option<String>, &'a Listed)>) -> Usage {
    let mut groups: BTreeMap<Option<String>, (usize, BTreeMap<&Digest, u64>)> = BTreeMap::new();
    let mut holders: BTreeMap<&Digest, BTreeSet<Option<String>>> = BTreeMap::new();
    let (mut labels, mut all) = (0, BTreeMap::new());
    for (key, image) in images {
        let group = groups.entry(key.clone()).or_default();
        group.0 += 1;
        group.1.insert(&image.digest, image.size);
        holders.entry(&image.digest).or_default().insert(key);
        labels += 1;
        all.insert(&image.digest, image.size);
    }
    let is_own = |digest: &Digest| holders.get(digest).is_some_and(|keys| keys.len() == 1);
    let group = |key, labels, images: &BTreeMap<&Digest, u64>| Group {
        key,
        labels,
        images: images.len(),
        bytes: images.values().sum(),
        own_bytes: images.iter().filter(|(one, _)| is_own(one)).map(|(_, size)| size).sum(),
    };
    let mut found: Vec<Group> =
        groups.into_iter().map(|(key, (labels, images))| group(key, labels, &images)).collect();
    found.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    let bytes = all.values().sum();
    let total = Group { key: None, labels, images: all.len(), bytes, own_bytes: bytes };
    Usage { groups: found, total }
}
