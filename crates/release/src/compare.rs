// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The figures of an image, compared with those of the image before it, and which image that is.

use cabane_channel::{ChannelDocument, Entry, State, VerifiedChannel, read_channel};
use cabane_evidence::{Comparison, Figures, Wanted, compare, figures};
use cabane_label::{
    Digest, ImageDescription, Label, LabelPattern, NameMatch, System, SystemPattern,
};
use cabane_registry::{ChannelPlace, Place, Registry, RemoteImage};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, FoundEvidence, find_evidence, look_up};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::history::before;

/// How many older images are looked at until one has figures.
const MOST_OLDER: usize = 20;
/// How many documents of a channel are looked at until one has another image.
const MOST_DOCUMENTS: usize = 50;

/// What is compared.
#[derive(Clone, Debug)]
pub struct CompareRequest {
    /// The image, as it is typed.
    pub image: String,
    /// The image that it is compared with; by default the one before it.
    pub with: Option<String>,
    /// The system on which both were tested; by default this one.
    pub on: Option<System>,
}

/// An image that is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedImage {
    /// Its label, or what was typed.
    pub image: String,
    /// Its sha256.
    pub digest: Digest,
}

/// The figures of two images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImageComparison {
    /// The image.
    pub image: ComparedImage,
    /// The one before it.
    pub before: ComparedImage,
    /// The system on which both were tested.
    pub system: Option<String>,
    /// What became of the figures.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// Where images and statements are read.
struct Search<'a> {
    context: &'a Context,
    /// The registry; without one the repositories.
    connection: Option<&'a Connection>,
    wanted: Wanted,
    now: Timestamp,
}

/// Compares the figures of an image with those of another one. Without `with`, that is the one that the
/// channel released before, if a channel releases the image. Otherwise it is the newest older image of the
/// same name, system, and microarchitecture that has figures.
///
/// # Errors
///
/// An image that is not there; no image before it; and those of reading.
pub fn compare_images(
    context: &Context,
    connection: Option<&Connection>,
    request: &CompareRequest,
) -> Result<ImageComparison> {
    let now = Timestamp::now();
    let wanted = Wanted::here(context, request.on.as_ref(), None, now);
    let search = Search { context, connection, wanted, now };
    let image = find_evidence(context, connection, &request.image)?;
    let new = search.figures(&image)?;
    let (before, old) = match &request.with {
        Some(typed) => {
            let before = find_evidence(context, connection, typed)?;
            let old = search.figures(&before)?;
            (before, old)
        }
        None => search.before(&image)?,
    };
    let compared = |found: FoundEvidence| ComparedImage { image: found.name, digest: found.digest };
    Ok(ImageComparison {
        image: compared(image),
        before: compared(before),
        system: search.wanted.system,
        comparison: compare(&old, &new),
    })
}

impl Search<'_> {
    fn figures(&self, found: &FoundEvidence) -> Result<Figures> {
        Ok(figures(&found.judged(self.context)?, &self.wanted, self.now))
    }

    /// Finds the image before another one, with its figures.
    fn before(&self, image: &FoundEvidence) -> Result<(FoundEvidence, Figures)> {
        let remote = self.connection.zip(image.remote.as_ref());
        let released = match remote {
            Some((connection, remote)) => released_before(self.context, connection, remote)?,
            None => followed_before(self.context, &image.digest)?,
        };
        if let Some(found) = released {
            let figures = self.figures(&found)?;
            return Ok((found, figures));
        }
        let older = match remote {
            Some((connection, remote)) => older_remote(self.context, connection, remote)?,
            None => older_here(self.context, &image.digest)?,
        };
        for place in older {
            let Some(found) = self.open(&place)? else { continue };
            let figures = self.figures(&found)?;
            if !figures.is_empty() {
                return Ok((found, figures));
            }
        }
        let on = self.wanted.system.as_deref().map(|system| format!(" on {system}"));
        let (name, on) = (&image.name, on.unwrap_or_default());
        let message = format!("no image before {name} has figures{on} that count");
        Err(Report::new(Kind::NotFound, message).hinted(
            "name the image to compare with: `--with IMAGE`; `cabane check IMAGE --repeat 5 --key FILE` \
             measures it"
                .to_owned(),
        ))
    }

    /// Reads the statements about an older image; `None` if its label has another image by now.
    fn open(&self, older: &Older) -> Result<Option<FoundEvidence>> {
        let Some((connection, place)) = self.connection.zip(older.place.as_ref()) else {
            return find_evidence(self.context, None, older.digest.as_str()).map(Some);
        };
        let image = connection.registry.image_if_there(place)?;
        let image = image.filter(|image| image.digest == older.digest);
        image.map(|image| FoundEvidence::of(connection, image)).transpose()
    }
}

/// An image of the same name.
struct Older {
    date: Option<Timestamp>,
    digest: Digest,
    /// Where it is in the registry.
    place: Option<Place>,
}

/// Returns the newest of some images, the newest first and each once.
fn newest_of(mut images: Vec<Older>) -> Vec<Older> {
    images.sort_by(|one, other| (other.date, &other.digest).cmp(&(one.date, &one.digest)));
    images.dedup_by(|one, other| one.digest == other.digest);
    images.truncate(MOST_OLDER);
    images
}

/// Returns what a name that follows a channel was before, where it is this image now.
fn followed_before(context: &Context, image: &Digest) -> Result<Option<FoundEvidence>> {
    for named in context.repositories()? {
        let repository = &named.repository;
        for (channel, system) in repository.channels()? {
            let names = repository.followed(&channel, &system)?;
            let mut of_image = names.into_values().filter(|one| one.release.digest == *image);
            if let Some(previous) = of_image.find_map(|one| one.previous) {
                // Somebody may have removed it.
                return Ok(find_evidence(context, None, previous.digest.as_str()).ok());
            }
        }
    }
    Ok(None)
}

/// Finds what a channel released before under the name of an image, where one releases the image.
fn released_before(
    context: &Context,
    connection: &Connection,
    image: &RemoteImage,
) -> Result<Option<FoundEvidence>> {
    let Some((document, entry)) = replaced(context, connection, image)? else {
        return Ok(None);
    };
    let found = image_of(&connection.registry, &document, &entry)?.ok_or_else(|| {
        let (label, place) = (&entry.label, document.place());
        let message = format!("the registry has lost {label}, which the channel {place} released");
        Report::new(Kind::Registry, message)
            .hinted("name another image to compare with: `--with IMAGE`".to_owned())
    })?;
    FoundEvidence::of(connection, found).map(Some)
}

/// Returns what a channel released before under the name of an image, where one releases the image now,
/// and the document that did.
fn replaced(
    context: &Context,
    connection: &Connection,
    image: &RemoteImage,
) -> Result<Option<(ChannelDocument, Entry)>> {
    let registry = &connection.registry;
    let Label { system, .. } = &image.place.label;
    let of_namespace =
        context.settings.channels.iter().filter(|one| one.namespace == image.place.namespace);
    for setting in of_namespace {
        let (name, namespace) = (setting.name.clone(), setting.namespace.clone());
        let place = ChannelPlace { name, namespace, system: system.clone() };
        let current = match read_channel(context, registry, setting, &place) {
            Err(error) if error.kind() == Kind::NotFound => continue,
            current => current?,
        };
        let is_there = |channel: &VerifiedChannel| {
            channel.document.entries.iter().any(|one| one.digest == image.digest)
        };
        let mut channel = Some(current).filter(is_there);
        for _ in 0..MOST_DOCUMENTS {
            let Some(after) = channel else { break };
            channel = before(registry, setting, &place, &after);
            if let Some(older) = channel.as_ref().filter(|older| !is_there(older)) {
                let document = older.document.clone();
                let day = TimeZone::UTC.to_datetime(document.issued).date();
                let entry = rival(&document, &image.place.label, day).cloned();
                return Ok(entry.map(|entry| (document, entry)));
            }
        }
    }
    Ok(None)
}

/// Returns what a document releases on a day under the name of an image: the same version, or else the
/// default, or else the newest one.
pub(crate) fn rival<'d>(
    document: &'d ChannelDocument,
    label: &Label,
    day: Date,
) -> Option<&'d Entry> {
    let is_released = |entry: &&Entry| entry.state(day) != State::Retired;
    let of_version = document.entry(label).filter(is_released);
    let default = || document.default_beside(label).filter(is_released);
    let newest = || {
        let of_name = document
            .entries
            .iter()
            .filter(|entry| entry.label.name == label.name && entry.label.uarch == label.uarch);
        of_name.filter(is_released).max_by_key(|entry| (entry.promoted, &entry.label.version))
    };
    of_version.or_else(default).or_else(newest)
}

/// Gets the image of an entry; `None` if the registry has lost it.
pub(crate) fn image_of(
    registry: &Registry,
    document: &ChannelDocument,
    entry: &Entry,
) -> Result<Option<RemoteImage>> {
    let place = document.place_of(entry);
    let found = registry.image_of_manifest(&place, &entry.manifest)?;
    Ok(found.filter(|image| image.digest == entry.digest))
}

fn older_remote(
    context: &Context,
    connection: &Connection,
    image: &RemoteImage,
) -> Result<Vec<Older>> {
    let Label { name, system, uarch, .. } = image.place.label.clone();
    let pattern = LabelPattern {
        namespace: Some(image.place.namespace.clone()),
        name: Some(name),
        system: Some(SystemPattern::Is(system)),
        uarch: Some(uarch),
        ..LabelPattern::default()
    };
    let description = ImageDescription::Pattern(pattern);
    let mut listed = look_up(context, connection, Some(&description), NameMatch::Exact, false)?;
    listed.retain(|one| one.digest != image.digest && one.date < image.created);
    let older = listed.into_iter().map(|one| Older {
        date: one.date,
        place: Some(one.place()),
        digest: one.digest,
    });
    Ok(newest_of(older.collect()))
}

fn older_here(context: &Context, image: &Digest) -> Result<Vec<Older>> {
    let mut older = Vec::new();
    for named in context.repositories()? {
        let Some(own) = named.repository.last_record(image)? else { continue };
        let is_same_name = |label: &Label| {
            let other = &own.label;
            label.name == other.name && label.system == other.system && label.uarch == other.uarch
        };
        let records = named.repository.records()?.into_iter().filter(|one| {
            is_same_name(&one.label) && one.digest != own.digest && one.date < own.date
        });
        let images =
            records.map(|one| Older { date: Some(one.date), digest: one.digest, place: None });
        older.extend(images);
    }
    Ok(newest_of(older))
}

#[cfg(test)]
mod tests {
    use cabane_channel::Retirement;

    use super::*;

    #[test]
    fn the_image_before_is_that_of_the_version_or_the_default_or_the_newest() {
        let place = ChannelPlace {
            namespace: "deploy".parse().unwrap(),
            name: "stable".parse().unwrap(),
            system: "daint".parse().unwrap(),
        };
        let entry = |version: &str, uarch: &str, second: i64| Entry {
            label: format!("app/{version}:v1@daint%{uarch}").parse().unwrap(),
            manifest: "a".repeat(64).parse().unwrap(),
            digest: "b".repeat(64).parse().unwrap(),
            size: 1,
            since: 1,
            promoted: Timestamp::from_second(second).unwrap(),
            is_default: false,
            evidence: Vec::new(),
            retirement: None,
        };
        let day: Date = "2026-11-26".parse().unwrap();
        let mut document = ChannelDocument::empty(&place);
        let of = |document: &ChannelDocument, version: &str| {
            let label = format!("app/{version}:v9@daint%gh200").parse().unwrap();
            rival(document, &label, day).map(|entry| entry.label.version.to_string())
        };
        assert_eq!(of(&document, "4"), None);
        document.entries = vec![
            Entry { is_default: true, ..entry("1", "gh200", 1) },
            entry("2", "gh200", 3),
            entry("3", "gh200", 2),
            entry("9", "zen3", 9),
        ];
        assert_eq!(of(&document, "3").as_deref(), Some("3"));
        assert_eq!(of(&document, "4").as_deref(), Some("1"));
        // The default is retired, or there is none.
        let retired = Some(Retirement { date: day, replacement: None, reason: None });
        document.entries[0].retirement.clone_from(&retired);
        assert_eq!(of(&document, "4").as_deref(), Some("2"));
        assert_eq!(of(&document, "1").as_deref(), Some("2"));
        document.entries.remove(0);
        document.entries[0].retirement.clone_from(&retired);
        assert_eq!(of(&document, "4").as_deref(), Some("3"));
        document.entries[1].retirement = retired;
        assert_eq!(of(&document, "4"), None);
    }
}
