// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names that follow a channel get the image that it releases now, and the one before again.

use std::collections::BTreeMap;

use cabane_channel::{Retirement, VerifiedChannel, read_channel, setting_of};
use cabane_label::{ChannelName, LabelPattern, System, SystemPattern};
use cabane_process::Scratch;
use cabane_registry::ChannelPlace;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::{Added, Followed, FollowedName, Release, Repository};
use cabane_run::difference::{PackageDifference, compare_packages, packages_beside};
use cabane_site::Context;

use crate::bases;
use crate::channel::{ReleasedImage, check_revoked, follow, image_of};
use crate::pull::{ToAdd, add_image, bases_of};
use crate::registry::Connection;

/// A name that follows a channel, and what becomes of it.
pub struct PlannedUpgrade {
    /// The channel.
    pub channel: ChannelPlace,
    /// The name.
    pub name: FollowedName,
    /// Which image it is.
    pub now: Followed,
    /// What the channel has for it.
    pub fate: Fate,
}

/// What a channel has for a name.
pub enum Fate {
    /// The image that it is already.
    Unchanged(Box<Unchanged>),
    /// Another image.
    New(Box<NewImage>),
    /// Nothing: why not.
    Nothing(Box<Nothing>),
}

/// Why a channel has nothing for a name.
pub struct Nothing {
    /// The reason.
    pub error: Report,
    /// That the channel has withdrawn the image: since when, and what replaces it.
    retirement: Option<Retirement>,
}

impl Fate {
    fn nothing(error: Report) -> Self {
        Self::Nothing(Box::new(Nothing { error, retirement: None }))
    }
}

/// The image that a name is already, as the channel has it now.
pub struct Unchanged {
    released: ReleasedImage,
}

/// Another image for a name.
pub struct NewImage {
    released: ReleasedImage,
    /// The packages that differ, if both images list theirs.
    pub packages: Option<Vec<PackageDifference>>,
    /// How many bytes are downloaded.
    pub bytes: u64,
}

impl NewImage {
    /// Returns the image.
    pub fn release(&self) -> Release {
        let entry = &self.released.entry;
        Release { label: entry.label.clone(), digest: entry.digest.clone() }
    }

    /// Returns the day on which the channel withdraws it, if that is announced.
    pub fn retired(&self) -> Option<String> {
        self.released.entry.retirement.as_ref().map(|one| one.date.to_string())
    }
}

impl Unchanged {
    /// Returns the day on which the channel withdraws the image, and what replaces it.
    pub fn retired(&self) -> Option<(String, Option<&LabelPattern>)> {
        let retirement = self.released.entry.retirement.as_ref()?;
        Some((retirement.date.to_string(), retirement.replacement.as_ref()))
    }
}

/// Finds out what the channels release now for the names here that follow them, or for those of them
/// that fit one of the patterns. Nothing is changed.
///
/// # Errors
///
/// A channel that is not trusted, a pattern that nothing fits; and those of asking.
pub fn plan_upgrade(
    context: &Context,
    connection: &Connection,
    patterns: &[LabelPattern],
) -> Result<Vec<PlannedUpgrade>> {
    let repository = context.repository_to_write()?.repository;
    let address = connection.registry.remembered_as();
    let mut documents = BTreeMap::new();
    let mut planned = Vec::new();
    for (channel, name, now) in names(context, &repository, patterns)? {
        if now.registry != address {
            let (place, other) = (&channel.name, &now.registry);
            context.note(format_args!("{name}:{place} comes from {other}, and is left as it is"));
            continue;
        }
        if !documents.contains_key(&channel) {
            let document = setting_of(context, &channel.namespace, &channel.name)
                .and_then(|setting| read_channel(context, &connection.registry, setting, &channel));
            documents.insert(channel.clone(), document);
        }
        let fate = match documents.get(&channel) {
            Some(Ok(document)) => fate(connection, &repository, document, &name, &now),
            Some(Err(error)) => Ok(Fate::nothing(Report::new(error.kind(), error.to_string()))),
            None => continue,
        };
        // One name is no reason to give the others up.
        let fate = fate.unwrap_or_else(Fate::nothing);
        planned.push(PlannedUpgrade { channel, name, now, fate });
    }
    Ok(planned)
}

/// The names here that follow a channel, or those of them that fit a pattern.
fn names(
    context: &Context,
    repository: &Repository,
    patterns: &[LabelPattern],
) -> Result<Vec<(ChannelPlace, FollowedName, Followed)>> {
    let mut all = Vec::new();
    for (channel, system) in repository.channels()? {
        for (name, now) in repository.followed(&channel, &system)? {
            let namespace = now.namespace.clone();
            let place = ChannelPlace { namespace, name: channel.clone(), system: system.clone() };
            all.push((place, name, now));
        }
    }
    let fits = |pattern: &LabelPattern, place: &ChannelPlace, name: &FollowedName| {
        pattern.name.as_ref().is_none_or(|one| *one == name.name)
            && pattern.version.as_ref().is_none_or(|one| Some(one) == name.version.as_ref())
            && pattern.uarch.as_ref().is_none_or(|one| *one == name.uarch)
            && pattern.tag.as_ref().is_none_or(|one| place.name.is_tag(one))
            && is_system(context, pattern, &place.system)
    };
    for pattern in patterns {
        if !all.iter().any(|(place, name, _)| fits(pattern, place, name)) {
            return Err(no_such_name(pattern));
        }
    }
    all.retain(|(place, name, _)| {
        patterns.is_empty() && is_system(context, &LabelPattern::default(), &place.system)
            || patterns.iter().any(|pattern| fits(pattern, place, name))
    });
    Ok(all)
}

fn is_system(context: &Context, pattern: &LabelPattern, system: &System) -> bool {
    match &pattern.system {
        Some(SystemPattern::Any) => true,
        Some(SystemPattern::Is(wanted)) => wanted == system,
        None => context.system().is_none_or(|here| here == *system),
    }
}

fn no_such_name(pattern: &LabelPattern) -> Report {
    let message = format!("no name that follows a channel matches `{pattern}`");
    Report::new(Kind::NotFound, message).hinted(
        "`cabane upgrade --dry-run` lists what does; `cabane image pull NAME:CHANNEL` adds to it"
            .to_owned(),
    )
}

fn fate(
    connection: &Connection,
    repository: &Repository,
    document: &VerifiedChannel,
    name: &FollowedName,
    now: &Followed,
) -> Result<Fate> {
    let released = match image_of(connection, document.clone(), &name.pattern()) {
        Ok(released) => released,
        Err(error) => {
            let retirement = document.document.retirement_of(&name.pattern()).cloned();
            return Ok(Fate::Nothing(Box::new(Nothing { error, retirement })));
        }
    };
    let is_here = repository.has_image(&released.entry.digest);
    if released.entry.digest == now.release.digest {
        if is_here {
            return Ok(Fate::Unchanged(Box::new(Unchanged { released })));
        }
        let message = format!("{} was removed here", now.release.label);
        let hint =
            format!("`cabane image pull {name}` gets it again", name = typed(name, document));
        return Ok(Fate::nothing(Report::new(Kind::NotFound, message).hinted(hint)));
    }
    let image = &released.image;
    let bytes = if is_here {
        0
    } else {
        connection.registry.missing_bytes(image, &bases_of(connection, repository, image)?)
    };
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let has_meta = connection.registry.fetch_meta(image, directory.path())?;
    let new = has_meta.then(|| packages_beside(directory.path())).flatten();
    let old = packages_beside(&repository.meta_path(&now.release.digest));
    let packages = old.zip(new).map(|(old, new)| compare_packages(&old, &new));
    Ok(Fate::New(Box::new(NewImage { released, packages, bytes })))
}

/// Returns how a name is typed that follows a channel.
fn typed(name: &FollowedName, document: &VerifiedChannel) -> LabelPattern {
    let tag = Some(document.document.channel.to_tag());
    LabelPattern { tag, ..name.pattern() }
}

/// Downloads the images that are new, and lets the names be them. What they were stays, as the way
/// back.
///
/// # Errors
///
/// A name that could not be upgraded; the others are.
pub fn upgrade(
    context: &Context,
    connection: &Connection,
    planned: &[PlannedUpgrade],
    done: &mut dyn FnMut(&PlannedUpgrade, &Added),
) -> Result<()> {
    let repository = context.repository_to_write()?.repository;
    let mut failed = Vec::new();
    for one in planned {
        let outcome = upgrade_one(context, connection, &repository, one);
        match outcome {
            Ok(Some(added)) => done(one, &added),
            Ok(None) => {}
            Err(error) => {
                context.warning(format_args!("{}:{}: {error}", one.name, one.channel.name));
                failed.push(error);
            }
        }
    }
    let count = failed.len();
    match failed.into_iter().next() {
        Some(error) if count == 1 => Err(error),
        Some(error) => {
            let message = format!("{count} names could not be upgraded");
            Err(Report::new(error.kind(), message).hinted(error.hints().first().cloned()))
        }
        None => Ok(()),
    }
}

fn upgrade_one(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    one: &PlannedUpgrade,
) -> Result<Option<Added>> {
    match &one.fate {
        Fate::New(new) => {
            // The label is that of an image of this channel, where it has another under the same.
            let label = &new.released.entry.label;
            let previous = one.now.previous.as_ref();
            let force = *label == one.now.release.label
                || previous.is_some_and(|previous| previous.label == *label);
            let image = &new.released.image;
            let wanted = ToAdd::new(image, force);
            let added = add_image(context, connection, repository, &wanted)?;
            // Before the name changes: without its bases the image cannot be started.
            bases::pull(context, connection, repository, (image, None), &mut |base| {
                context.note(format_args!(
                    "added {} ({})",
                    base.record.label,
                    base.record.digest.id()
                ));
            })?;
            follow(connection, repository, &new.released, &one.name)?;
            Ok(Some(added))
        }
        // It may be announced that the image is going to be withdrawn.
        Fate::Unchanged(unchanged) => {
            follow(connection, repository, &unchanged.released, &one.name)?;
            Ok(None)
        }
        Fate::Nothing(nothing) => {
            if let Some(retirement) = &nothing.retirement {
                let (channel, system) = (&one.channel.name, &one.channel.system);
                let noted = (retirement.date, retirement.replacement.as_ref());
                repository.note_retirement(channel, system, &one.name, noted)?;
            }
            Ok(None)
        }
    }
}

/// A name that is again what it was before.
pub struct RolledBack {
    /// The channel.
    pub channel: ChannelName,
    /// The name.
    pub name: FollowedName,
    /// Which image it is.
    pub now: Release,
    /// Which image it was until now.
    pub before: Release,
}

/// Lets names that follow a channel be the image that they were before the last upgrade.
///
/// # Errors
///
/// Nothing fits the pattern, or was another image before; or that image is gone.
pub fn roll_back(context: &Context, pattern: &LabelPattern) -> Result<Vec<RolledBack>> {
    let repository = context.repository_to_write()?.repository;
    let mut rolled_back = Vec::new();
    for (place, name, now) in names(context, &repository, std::slice::from_ref(pattern))? {
        let Some(previous) = &now.previous else { continue };
        check_revoked(context, &previous.label, &previous.digest)?;
        if !repository.has_image(&previous.digest) {
            let (label, digest) = (&previous.label, &previous.digest);
            let message = format!("{label}, which {name}:{} was before, is gone", place.name);
            return Err(Report::new(Kind::NotFound, message)
                .hinted(format!("`cabane image pull {digest}` gets it from the registry")));
        }
        let before = now.release.clone();
        if let Some(now) = repository.roll_back(&place.name, &place.system, &name)? {
            rolled_back.push(RolledBack { channel: place.name, name, now, before });
        }
    }
    if rolled_back.is_empty() {
        let message = format!("`{pattern}` has no earlier image");
        return Err(Report::new(Kind::NotFound, message).hinted(
            "`cabane image pull NAME/VERSION:TAG` gets any image of the registry".to_owned(),
        ));
    }
    Ok(rolled_back)
}
