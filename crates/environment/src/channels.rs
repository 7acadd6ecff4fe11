// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What channels say of an image that is started: that it is revoked, or going to be retired.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cabane_channel::known_revocation;
use cabane_label::{ImageDescription, escape};
use cabane_repository::{Followed, Repository};
use cabane_resolve::LocatedImage;
use cabane_site::Context;

/// How long nothing more is said about an image.
const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// Says that an image is revoked; or that it is going to be retired, or is, and what replaces it, once a
/// day. It is known since the last look at the channel. An image that was named by its digest is meant
/// as it is, unless it is revoked.
pub(crate) fn announce(context: &Context, typed: &ImageDescription, located: &LocatedImage) {
    if warn_revoked(context, located) || !matches!(typed, ImageDescription::Pattern(_)) {
        return;
    }
    let Some((channel, followed)) = retired(located) else {
        return;
    };
    let (Some(date), Some(label)) = (followed.retired, &located.label) else {
        return;
    };
    let notices = context.settings.state_directory.as_ref().map(|state| state.join("notices"));
    let id = followed.release.digest.id();
    if notices.is_some_and(|notices| !is_due(&notices, id.as_str())) {
        return;
    }
    let when = if followed.is_withdrawn() { "was retired from" } else { "will be retired from" };
    context.note(format_args!("{label} {when} {channel} on {date}"));
    match &followed.replacement {
        Some(replacement) => context.hint(format_args!("use `{replacement}` instead")),
        None => context.hint("`cabane upgrade --dry-run` shows what replaces it"),
    }
}

fn warn_revoked(context: &Context, located: &LocatedImage) -> bool {
    let (Some(digest), Some(label)) = (&located.digest, &located.label) else {
        return false;
    };
    let Some((channel, revoked)) = known_revocation(context, digest) else {
        return false;
    };
    let (date, reason) = (revoked.date, escape(&revoked.reason));
    context.warning(format_args!("the channel {channel} revoked {label} on {date}: {reason}"));
    context
        .hint(format_args!("`cabane channel show {channel}` lists the images that are released"));
    true
}

/// Returns the channel, and what it says of an image here that it retires.
fn retired(located: &LocatedImage) -> Option<(String, Followed)> {
    let (digest, label) = (located.digest.as_ref()?, located.label.as_ref()?);
    // Of `<repository>/images/<digest>/image`; mostly there is no channel, and nothing is opened.
    let root = located.repository.as_ref().and(located.path.ancestors().nth(3))?;
    if !root.join("channels").is_dir() {
        return None;
    }
    let repository = Repository::open(root).ok()?;
    let channels = repository.channels().ok()?;
    for (channel, system) in channels.into_iter().filter(|(_, system)| *system == label.system) {
        let names = repository.followed(&channel, &system).ok()?;
        let is_meant = |one: &Followed| one.release.digest == *digest && one.retired.is_some();
        if let Some(followed) = names.into_values().find(is_meant) {
            return Some((channel.to_string(), followed));
        }
    }
    None
}

/// Returns whether nothing was said for a day, and notes that something is.
fn is_due(notices: &Path, id: &str) -> bool {
    let path = notices.join(id);
    let said = fs::metadata(&path).and_then(|file| file.modified()).ok();
    let since = said.map(|said| SystemTime::now().duration_since(said).unwrap_or(PAUSE));
    if since.is_some_and(|since| since < PAUSE) {
        return false;
    }
    // Where it cannot be noted, it is said more often.
    let _ = fs::create_dir_all(notices).and_then(|()| fs::write(&path, ""));
    true
}
